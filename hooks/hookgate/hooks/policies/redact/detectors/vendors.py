"""Names of services whose keys have no format of their own: a random value after such a name is a key.

Names that are common words are left out, unless a word such as `key` or `token` is near them.
"""

VENDORS = tuple(
    """
abbysale abstractapi abuseipdb accuweather activecampaign adafruit adobe adyen adzuna aeroworkflow agora airbrake
airship airtable airvisual aiven akamai alchemy algolia alibaba alienvault aliyun alpaca alphavantage amadeus ambee
amplitude anthropic anypoint apacta api2cart apideck apiflash apifonica apify apilayer apimatic apiscience
apitemplate appcircle appcues appdynamics appfollow appoptics appsignal appsynergy apptentive appveyor appwrite
arcgis artifactory artsy asana assemblyai atera atlassian attio auddio auth0 autodesk autoklose autopilot
avazaperson aviationstack axonaut ayrshare b2b backblaze bamboohr bandwidth bannerbear baremetrics baseapiio
basecamp baserow beamer beebole belvo besnappy bestbuy bettercloud betterstack billomat binance bitbar bitbucket
bitcoinaverage bitfinex bitgo bitly bitmex bitrise bitstamp bittrex blazemeter blitapp blizzard blockchain
blockcypher blockfrost blocknative blogger bluesnap bombbomb boostnote borgbase boxcom brainly braintree branchio
brandfetch braze brightdata broadcom browserless browserstack browshot bscscan bugherd bugsnag buildkite bulbul
bulksms buttercms buymeacoffee caflou calendarific calendly callfire calorieninja campayn camunda cannyio canva
capsulecrm captaindata carboninterface cashboard caspio censys centralstationcrm cexio chargebee chartbeat
chartmogul chatfule checio checkly checkmarx checkvist circleci cisco clarifai clearbit clerk clevertap clickatell
clickhelp clicksend clickup cliengo clientary clinchpad clockify cloudelements cloudflare cloudimage cloudinary
cloudmersive cloudplan cloudsight cloudsmith cloudways cloverly cloze clustdoc codacy codeclimate codecov codemagic
codequiry codesandbox cohere coinapi coinbase coingecko coinlayer coinlib coinmarketcap commercejs companyhub
confluence confluent contentful contentstack conversiontools convertapi convertkit convier copyleaks couchbase
countrylayer coveralls crossbrowsertesting crowdin crowdstrike cryptocompare currencycloud currencyfreaks
currencylayer currencyscoop currentsapi customerguru customerio cybersource d7network dareboost databox databricks
datadog datafire datagov datarobot dbt debounce debricked deepai deepgram deepl deepseek deepsource detectify
detectlanguage devcycle dfuse dialogflow diffbot diggernaut digitalocean discogs discord discourse disqus dnscheck
dnsimple dockerhub docparser documo docusign doppler dotdigital dovico downdetector dronahq droneci dropbox duply
dwolla dynadot dynalist dynatrace e2b easyinsight easypost ebay ecostruxure edamam edenai eightxeight elasticemail
elevenlabs emailable emailoctopus enablex endorlabs etherscan ethplorer etsy eventbrite everhour evernote
exchangerate exchangeratesapi exportsdk extractorapi facebook faceplusplus fastforex fastly fastspring fauna feedier
fetchrss fibery figma fileio filestack finage financialmodelingprep findl finicity finnhub firebase firecrawl
fireworks flatio fleetbase flexport flickr flightapi flightlabs flightstats flowflu flutterwave fluxguard fmfw
formbucket formcraft formio formsite formspree foursquare frameio frankfurter freshbooks freshdesk freshsales
freshservice fullstory genderize gengo geoapify geocode geocodify geocodio geoipifi getblock getemail getgeoapi
getgist getresponse getsandbox giphy gitbook gitea github gitlab gitter gladia glassnode glitterlyapi gocanvas
gocardless goodday goodreads googlemaps gotomeeting grafana graphhopper groovehq groq gtmetrix guardianapi gumroad
gyazo habitica happyscribe hashicorp heatmapapi hellosign helpcrunch helpscout hereapi heroku hetzner hiveage
holidayapi honeybadger honeycomb hootsuite hostinger housecanary html2pdf hubspot huggingface humio hunterio
hypertrack iconfinder iexapis iexcloud imagekit imagga imgbb imgix imgur impala influxdb infobip infura inmobi
insightly instagram instamojo integromat intercom interseller intra42 intrinio invoiceocean ip2location ipapi ipdata
ipgeolocation ipify ipinfo ipinfodb ipquality ipstack iterable jenkins jfrog jina jira jotform jumpcloud jumpseller
juro kaggle kakao kanbantool karmacrm keenio keygen kickbox kinde klaviyo klipfolio knapsackpro kontent kraken
kucoin kylas labelbox landbot langchain langfuse langsmith languagelayer lastfm launchdarkly leadfeeder lemlist
lemonsqueezy lemwarm lendflow lessannoyingcrm lexigram linear linemessaging linenotify linkedin linkpreview linode
lionhash listennotes litmos liveagent livechat livestorm loadmill lob localazy locationiq logdna logentries loggly
loginradius logzio lokalise lookerapi loyverse lunchmoney luno lyft m3o madkudu magento magicbell mailboxlayer
mailchimp mailerlite mailersend mailgun mailjet mailmodo mailru mailsac mailtrap manapi mandrill mapbox mapquest
maptiler marketo marketstack mattermost mavenlink maxmind meaningcloud mediastack meetup meilisearch meistertask
meraki mesibo messagebird metaapi metabase metrilo microsoftgraph midise mindmeister miro mistral mixmax mixpanel
mockaroo mollie monday mondayapi mongodb monkeylearn moonclerk moonpay moosend moralis movebot moxtra mparticle
mrticktock myfreshworks myintervals nasdaq nethunt netlify netsuite neutrinoapi newrelic newsapi newscatcher nexmo
nftport ngc ngrok nicereply nightfall nitro notion nozbe numverify nutritionix nvidia nylas nytimes oanda octopus
okta omnisend onbuka onedesk onelogin onepagecrm onesignal onwater oopspam openai opencage opencagedata openrouter
openuv openvpn openweather openweathermap opsgenie optimizely orbintelligence ordnancesurvey overloop owlbot owm
oxylabs packagecloud paddle pagerduty pandadoc pandascore paperform papyrs paralleldots parsehub parsers parseur
partnerstack pastebin patreon paydirtapp paymoapp paymongo paypal paystack pdf2doc pdfco pdfcrowd pdflayer pdfmonkey
pdfshift pendo peopledatalabs pepipost perplexity phantombuster photoroom pinecone pingdom pinterest pipedream
pipedrive pivotaltracker pixabay placekit plaid planetscale plangrid planio plivo podio poloniex polygonio portainer
portkey positionstack postageapp postbacks posthog postman postmark powrbot prefect printful procore prodpad
prospectcrm protocolsio proxycrawl pubnub pulumi pushbullet pusher pushover pyowm qase qiita quaderno qualaroo
qualys quickbase quickmetrics quicknode rabbitmq rapid7 rapidapi rawg razorpay reachmail readme reallysimplesystems
rebrandly recurly redash rentcast rentman repairshopr replicate replyio requestfinance rescuetime resend restpack
restpackhtml retell revampcrm ringcentral riteapp ritekit rocketreach rollbar route4me rownd runpod runrunit
saladcloud salesblink salescookie salesflare salesforce salesloft salesmate sanity satismeter saucelabs scaleway
scalr scraperapi scraperbox scrapfly scrapingant scrapingbee scrapingdog screenshotapi screenshotlayer scrutinizer
securitytrails segment sellfy semrush sendbird sendbirdorg sendgrid sendinblue sentry serpapi serphouse serpstack
servicenow sevenio sheety sherpadesk shipday shippo shodan shopee shopify shotstack shutterstock signalwire
signaturit signupgenius sigopt simfin similarweb simplesat simplynoted simvoly sinch sirv siteleaf skrapp skrappio
skybiometry slack smartling smartsheets smartystreets smooch snipcart snipeit snowflake snyk sonar sonarcloud
sonarqube sonicjs sourcegraph sparkpost speechmatics splunk splunkobservability spoonacular sportradar sportsmonk
spotify square squarespace squareup sslmate statuscake statuspage statuspal stitchdata stockdata storecove
stormboard stormglass storyblok storychief strava streak stripe stripo stytch sugester sumologic supabase supernotes
surveyanyplace surveybot surveymonkey surveysparrow survicate swiftype synthesia tableau tailscale talend tallyfy
tatumio tavily taxjar teamgate teamviewer teamwork teamworkcrm teamworkdesk teamworkspaces technicalanalysis
techsmith telegram telesign telestream telnyx tencent tenor terraform textmagic theoddsapi thinkific thousandeyes
ticketmaster tickettailor tiingo timecamp timekit timezoneapi tineswebhook tmdb tmetric todoist togetherai toggl
tokeet tomorrowio tomtom tradier transferwise transifex travelpayouts travisci travisoauth trello truenas twelvedata
twilio twitch twitter tyntec typeform typesense typetalk ubidots uclassify unifyid unplugg unsplash upcdatabase
upcloud uplead uploadcare uploadio upstash uptimerobot upwave urlscan userflow userstack vatlayer vbout vercel
verifone verimail veriphone versioneye vertexai viewneo vimeo virustotal visualcrossing voicegain vonage voodoosms
vouchery vpnapi vultr vyte walkscore wandb weatherapi weatherbit weatherstack webex webflow webhookrelay webscraper
webscraping websitepulse whatsapp whoisxml whoxy wistia wolfram woocommerce woodpecker workable workato workday
worksnaps workstack worldcoinindex worldweather wrike writeai xai xata xero yandex yelp ynab yodlee youneedabudget
youtube zapier zapierwebhook zendesk zenkit zenrows zenscrape zenserp zeplin zerobounce zerotier zipapi zipbooks
zipcodeapi zipcodebase zoho zonkafeedback zoom zoominfo zulip zyte
""".split()
)
"""In lower case, without blanks and signs."""
