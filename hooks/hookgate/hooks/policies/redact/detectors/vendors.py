"""Names of services whose keys have no format of their own: a random value after such a name is a key.

Only names without another meaning are listed. If a word such as `key` is near the value, no name is needed.
"""

_NAMES = """
abstractapi abuseipdb abyssale accuweather activecampaign adafruit adafruit-io adyen adzuna aeroworkflow
airbrake airship airtable aiven akamai alchemy alconost alegra aletheia algolia alibaba alienvault aliyun
allsports alpha-vantage ambee amplitude anthropic anypoint apacta apideck apiflash apifonica apify apilayer
apimatic apimetrics apitemplate appcues appdynamics appfollow appoptics apptivo artifactory artsy asana
assembly-ai atlassian audd auth0 autodesk autoklose avaza aviationstack axonaut aylien ayrshare azure-devops
azure-openai backblaze bamboohr bannerbear baremetrics baseten beebole besttime betterstack billomat bintray
bitbar bitbucket bitcoinaverage bitfinex bitly bitmex bittrex blazemeter blitapp blockchain blocknative
bombbomb boostnote borgbase braintree brandfetch browser-stack browshot bscscan buddyns bugherd bugsnag
buildkite bulksms buttercms calendarific calendly calorieninja campayn canny-io capsulecrm carboninterface
cartesia cashfree caspio censys centralstation cerebras cexio chargebee chartmogul chatfuel checkly
checkvist circle-ci clarifai clearbit clickatell clickhelp clicksend clickup cliengo clientary clinchpad
clockify clockworksms closecrm cloudconvert cloudelements cloudflare cloudimage cloudinary cloudmersive
cloudsight cloudsmith cloverly codacy codeclimate codecov codemagic codequiry cohere coinapi coinbase
coinlayer coinlib coinmarketcap commercejs companyhub confluence confluent contentful contentstack
convertapi convertkit copyscape countrylayer coveralls craftmypdf crowdin crowdstrike cryptocompare
currencycloud currencyfreaks currencylayer currencyscoop currentsapi customer-io daily-co dareboost data-dog
databox databricks debounce deep-seek deepai deepgram deepinfra demio detectify detectlanguage diffbot
diggernaut digital-ocean discord disqus dnscheck docparser documo docusign dotdigital dotmailer dovico
dreamhost drone-ci dropbox duply dwolla dynalist dynatrace easypost edamam eden-ai eightxeight elastic
elasticemail eleven-labs enablex endorlabs equinix etherscan ethplorer etsy eventbrite everhour
exchangeratesapi exportsdk extractorapi facebook faceplusplus facepp fastforex fastly feedier fetchrss
fibery figma finage financialmodelingprep finicity finnhub finnhub-io firebase fireworks-ai fixerio flatio
fleetbase flickr flightapi flightlabs flightstats flowflu flutterwave formbucket formcraft formsite
foursquare frameio freshbooks freshdesk frontegg fullcontact fullstory fusebill fxmarket geckoboard
genderize geoapify geocodify geocodio geoipify getgeoapi getresponse giphy gitea gitguardian github gitlab
gitter gocanvas gocardless godaddy goodday grafana graphcms graphhopper greynoise groovehq groqcloud
gtmetrix guardianapi gumroad gyazo happyscribe harness hellosign helpcrunch helpscout hereapi heroku hetzner
hibob holidayapi honeybadger honeycomb huawei hubspot hugging-face hunter-io hybiscus hypertrack iconfinder
iexapis iexcloud imagekit imagga imgur influxdb infracost infura insightly instabot instagram instamojo
integromat intercom interseller intrinio invoiceocean ip2location ipapi ipdata ipgeolocation ipinfo ipinfodb
ipqualityscore ipstack jenkins jfrog jira jotform jumpcloud jupiterone kaggle kanbantool karmacrm keenio
kickbox kinde klaviyo klipfolio knapsackpro kontent kraken kucoin kylas langsmith languagelayer lastfm
launch-darkly leadfeeder lemlist lemon-squeezy lendflow lessannoyingcrm lexigram linked-in linkpreview
linode liveagent livekit livestorm llamacloud locationiq loggly loginradius logzio lokalise looker loyverse
lunchmoney madkudu magicbell mail-chimp mail-gun mailboxlayer mailerlite mailersend mailjet mailmodo mailsac
mailtrap mandrill mapbox mapquest marketstack mattermost mavenlink maxmind meaningcloud mediastack
meistertask meraki mesibo message-bird metaapi metabase metrilo midtrans mindmeister mistral mixmax mixpanel
mockaroo mongodb monkeylearn moonclerk moosend moralis mrticktock myfreshworks myintervals nasdaq nethunt
netlify neutrinoapi new-relic new-york-times newsapi newscatcher nexmo nftport ngrok nicereply nightfall
notion novita nozbe numverify nutritionix nvidia nylas nytimes oanda okta omnisend onedesk onelogin
onepagecrm onesignal onwaterio oopspam open-ai open-router open-weather opencage opengraphr openuv
openweathermap opsgenie overloop owlbot owm packagecloud pagarme pager-duty pandadoc pandascore paperform
papertrail paralleldots parsehub parseur partnerstack passbase pastebin paydirt paymo paymongo paypal
paystack pdflayer pdfshift people-data-labs perplexity phantombuster pinecone pingdom pinterest pipedream
pipedrive pivotaltracker plaid planet-scale planviewleankit planyo plivo podio pollsapi poloniex polygon-io
positionstack postageapp postbacks posthog postmark postmarkapp powrbot prefect private-ai prodpad
prospectcrm protocolsio proxycrawl pubnub purestake pushbullet pusher pushover pyowm qase qdrant qualaroo
qubole rapid-api rawg razorpay reachmail reallysimplesystems rebrandly recaptcha rechargepayments rentman
repairshopr replicate replyio restpack revampcrm ringcentral ritekit rocketreach rollbar roninapp route4me
runpod runrunit salesblink salescookie salesflare salesforce salesmate satismeter saucelabs scaleway scalr
scalyr scrapeowl scraperapi scraperbox scrapersite scrapestack scrapfly scrapingant scrapingbee
screenshotapi screenshotlayer securitytrails selectpdf send-grid sendbird sendinblue sentinelone sentry
serpapi serper serphouse serpstack sheety sherpadesk shipday shippo shodan shopify shotstack shutterstock
signable signalwire signaturit signupgenius sigopt siliconflow simplesat simplynoted simvoly sirv siteleaf
skrapp skybiometry slack smartsheet smartystreets snipcart snyk solarwinds sonar sonar-qube sonarcloud
sonarlogin sparkpost speechtextai splunk spoonacular sportmonks spotify square-space squareup sslmate
stability-ai stack-hawk status-page statuscake statuspal stitchdata stockdata storecove stormboard
stormglass storyblok storychief strava stripo stytch sugester sumo-logic supabase supernotes surveybot
surveymonkey surveysparrow survicate swiftype tallyfy tatumio tavily taxjar team-city teamgate
technicalanalysisapi telegram teletype telnyx testingbot text2data textmagic theoddsapi thingsboard
thinkific thousandeyes ticketmaster tickettailor tiingo timecamp tmetric todoist together-ai toggl tokeet
tomorrow-io tomtom tradier transferwise travelpayouts travis travis-ci trello twelvedata twilio twitch
twitter tyntec typeform typetalk ubidots uclassify unplugg unsplash upcdatabase uplead uploadcare
uptimerobot urlscan userflow userstack vagrantcloud vatlayer vercel verimail veriphone versioneye viewneo
virustotal vonage vouchery voyageai vpnapi vultr vyte wakatime walkscore wandb weatherapi weatherbit
weatherstack webex webflow websitepulse wepay whoxy wistia wit-ai wolframalpha workos worksnaps workstack
worldcoinindex wpengine wrike xendit yandex yelp you-track youneedabudget yousign youtube zapier zendesk
zenkit zenrows zenscrape zenserp zeplin zerobounce zerotier zipapi zipbooks zipcodeapi zipcodebase
zonkafeedback zoominfo zulip
"""

VENDORS = tuple(_NAMES.split())
"""In lower case. A dash stands for a blank, a dash, an underscore, or nothing."""
