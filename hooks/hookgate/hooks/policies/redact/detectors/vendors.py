"""Names of services whose keys have no format of their own: a random value after such a name is a key.

Only names without another meaning are listed. If a word such as `key` is near the value, no name is needed.
"""

_NAMES = """
abstractapi abuseipdb abyssale accuweather activecampaign adafruit adafruit-io adyen adzuna aeroworkflow
agora airbrake airbyte airship airtable airvisual aiven akamai alchemy alconost alegra aletheia algolia
alibaba alienvault aliyun allsports alpha-vantage amadeus ambee amplitude anthropic anypoint apacta
api2cart apideck apiflash apifonica apify apilayer apimatic apimetrics apitemplate appcues appdynamics
appfollow appointedd appoptics appsynergy apptivo artifactory artsy asana assembly-ai atera atlassian audd
auth0 autodesk autoklose avaza aviationstack axonaut aylien ayrshare azure-devops azure-openai backblaze
bamboohr bannerbear baremetrics baseten beebole besnappy besttime betterstack billomat bintray bitbar
bitbucket bitcoinaverage bitfinex bitly bitmex bittrex blazemeter blitapp blockchain blocknative bombbomb
boostnote borgbase braintree brandfetch browser-stack browshot bscscan buddyns budibase bugherd bugsnag
buildkite bulksms buttercms calendarific calendly calorieninja campayn canny-io capsulecrm captaindata
carboninterface cartesia cashfree caspio censys centralstation cerebras cexio chargebee chartmogul chatfuel
checkly checkvist circle-ci clarifai clearbit clickatell clickhelp clicksend clickup cliengo clientary
clinchpad clockify clockworksms closecrm cloudconvert cloudelements cloudflare cloudimage cloudinary
cloudmersive cloudsight cloudsmith cloverly clustdoc codacy codeclimate codecov codemagic codequiry cohere
coinapi coinbase coinlayer coinlib coinmarketcap commercejs companyhub confluence confluent contentful
contentstack convertapi convertkit copyscape couchbase countrylayer coveralls craftmypdf crowdin
crowdstrike cryptocompare currencycloud currencyfreaks currencylayer currencyscoop currentsapi customer-io
customerguru d7network daily-co dareboost data-dog databento databox databricks debounce deep-seek deepai
deepgram deepinfra demio detectify detectlanguage diffbot diggernaut digital-ocean discord disqus dnscheck
docparser documo docusign dotdigital dotmailer dovico dreamhost dronahq drone-ci dropbox duply dwolla
dynalist dynatrace dyspatch eagleeyenetworks easypost ecostruxureit edamam eden-ai eightxeight elastic
elasticemail eleven-labs enablex endorlabs equinix etherscan ethplorer etsy eventbrite everhour
exchangerate-api exchangerates exchangeratesapi exportsdk extractorapi facebook faceplusplus facepp
fastforex fastly feedier fetchrss fibery figma finage financialmodelingprep finicity finnhub finnhub-io
firebase fireworks-ai fixerio flatio fleetbase flickr flightapi flightlabs flightstats flowflu flutterwave
formbucket formcraft formsite foursquare frameio freshbooks freshdesk freshworks frontegg fullcontact
fullstory fusebill fxmarket geckoboard genderize gengo geoapify geocodify geocodio geoipify getgeoapi
getgist getresponse getsandbox giphy gitea gitguardian github gitlab gitter glassnode gocanvas gocardless
godaddy goodday grafana graphcms graphhopper greynoise groovehq groqcloud gtmetrix guardianapi gumroad
gyazo happyscribe harness hasura hellosign helpcrunch helpscout hereapi heroku hetzner hibob hiveage
holidayapi honeybadger honeycomb html2pdf huawei hubspot hugging-face hunter-io hybiscus hypertrack
ibm-cloud ibmcloud iconfinder iexapis iexcloud imagekit imagga imgur influxdb infracost infura insightly
instabot instagram instamojo integromat intercom interseller intrinio invoiceocean ip2location ipapi ipdata
ipgeolocation ipinfo ipinfodb ipqualityscore ipstack jenkins jfrog jira jotform jumpcloud jupiterone juro
kaggle kagi kanbantool karmacrm keenio kickbox kinde klaviyo klipfolio knapsackpro kontent kraken kucoin
kylas langsmith languagelayer larksuite lastfm launch-darkly leadfeeder lemlist lemon-squeezy lendflow
lessannoyingcrm lexigram line-notify linked-in linkpreview linode liveagent livekit livestorm llamacloud
loadmill locationiq loggly loginradius logzio lokalise looker loyverse lunchmoney luno madkudu magicbell
mail-chimp mail-gun mailboxlayer mailerlite mailersend mailjet mailmodo mailsac mailtrap mandrill mapbox
mapquest marketstack mattermost mavenlink maxmind meaningcloud mediastack meistertask meraki mesibo
message-bird metaapi metabase metrilo midtrans mindmeister miro mistral mixmax mixpanel mockaroo mongodb
monkeylearn moonclerk moosend moralis mrticktock myfreshworks myintervals nasdaq nethunt netlify netsuite
neutrinoapi new-relic new-york-times newsapi newscatcher nexmo nftport ngrok nicereply nightfall notion
novita nozbe numverify nutritionix nvidia nylas nytimes oanda okta ollama omnisend onedesk onelogin
onepagecrm onesignal onfleet onwaterio oopspam open-ai open-router open-weather opencage opengraphr openuv
openvpn openweathermap opsgenie overloop ovh owlbot owm packagecloud pagarme pager-duty pandadoc pandascore
paperform papertrail paralleldots parsehub parseur partnerstack passbase pastebin paydirt paymo paymongo
paypal paystack pdflayer pdfshift people-data-labs pepipost perplexity phantombuster pinata pinecone
pingdom pinterest pipedream pipedrive pivotaltracker pixabay plaid planet-scale planview planviewleankit
planyo plivo podio pollsapi poloniex polygon-io polymarket positionstack postageapp postbacks posthog
postmark postmarkapp powrbot prefect private-ai prodpad prospectcrm protocolsio proxycrawl pubnub purestake
pushbullet pusher pushover pyowm qase qdrant qualaroo qubole railway-app rapid-api rawg razorpay reachmail
reallysimplesystems rebrandly recaptcha rechargepayments redhat-pyxis rentman repairshopr replicate replyio
request-finance restpack revampcrm ringcentral ritekit rocketreach rollbar roninapp route4me rownd runpod
runrunit salesblink salescookie salesflare salesforce salesmate satismeter saucelabs scaleway scalr scalyr
scrapeowl scraperapi scraperbox scrapersite scrapestack scrapfly scrapingant scrapingbee screenshotapi
screenshotlayer scrutinizer securitytrails selectpdf send-grid sendbird sendinblue sentinelone sentry
serpapi serper serphouse serpstack sheety sherpadesk shipday shippo shodan shopify shotstack shutterstock
signable signalwire signaturit signupgenius sigopt siliconflow simfin simplesat simplynoted simvoly sinch
sirv siteleaf skrapp skybiometry slack smartsheet smartystreets smooch snipcart snowflake snyk solarwinds
sonar sonar-qube sonarcloud sonarlogin sparkpost spectralops speechtextai splunk spoonacular sportmonks
spotify spotinst square-space squareup sslmate stability-ai stack-hawk status-page statuscake statuspal
stitchdata stockdata storecove stormboard stormglass storyblok storychief strava stripo stytch sugester
sumo-logic supabase supernotes surveybot surveymonkey surveysparrow survicate swiftype tableau tallyfy
tatum tatumio tavily taxjar team-city teamgate technicalanalysisapi tefter telegram teletype telnyx
testingbot text2data textmagic theoddsapi thingsboard thinkific thousandeyes ticketmaster tickettailor
tiingo timecamp timezoneapi tmetric todoist together-ai toggl tokeet tomorrow-io tomtom tradier
transferwise travelpayouts travis travis-ci trello twelvedata twilio twitch twitter tyntec typeform
typetalk ubidots uclassify unplugg unsplash upcdatabase uplead uploadcare upstage uptimerobot upwave
urlscan userflow userstack vagrantcloud vatlayer vbout vercel verimail veriphone versioneye viewneo
virustotal visualcrossing voicegain vonage voodoosms vouchery voyageai vpnapi vultr vyte wakatime walkscore
wandb weatherapi weatherbit weatherstack webex webflow websitepulse wepay whoxy wistia wit-ai wolframalpha
workos worksnaps workstack worldcoinindex worldweather wpengine wrike xendit yandex yelp you-track
youneedabudget yousign youtube zapier zendesk zenkit zenrows zenscrape zenserp zeplin zerobounce zerotier
zipapi zipbooks zipcodeapi zipcodebase zonka zonkafeedback zoominfo zulip
"""

VENDORS = tuple(_NAMES.split())
"""In lower case. A dash stands for a blank, a dash, an underscore, or nothing."""
