"""Names of services whose keys have no format of their own: a random value after such a name is a key.

Only names without another meaning are listed. If a word such as `key` is near the value, no name is needed.
"""

_NAMES = """
abstractapi abuseipdb accuweather activecampaign adafruit airbrake airtable aiven akamai algolia alibaba
aliyun alphavantage amplitude appdynamics artifactory asana assemblyai atlassian auth0 aviationstack
backblaze bamboohr bitbucket bitfinex bitly bittrex blockchain braintree brandfetch browserstack bscscan
bugsnag buildkite calendly censys chargebee checkly circleci clearbit clickatell clicksend clockify
cloudflare cloudinary codacy codeclimate codecov cohere coinapi coinbase coinmarketcap confluence confluent
contentful coveralls cryptocompare currencylayer datadog deepgram deepseek detectlanguage diffbot
digitalocean discord docusign dreamhost droneci dropbox dynatrace edamam elastic elevenlabs etherscan
eventbrite exchangeratesapi facebook fastly figma finnhub firebase fixerio flickr foursquare freshbooks
freshdesk fullcontact genderize geoapify geocodio getresponse giphy gitea github gitlab gitter godaddy
grafana gumroad happyscribe helpscout heroku hetzner honeybadger honeycomb hubspot huggingface hunterio
imgur influxdb infura instagram intercom ipapi ipdata ipgeolocation ipinfo ipstack jenkins jfrog jira
jotform jumpcloud kaggle klaviyo kraken kucoin lastfm launchdarkly linkedin linode locationiq loggly logzio
lokalise mailboxlayer mailchimp mailgun mailjet mailtrap mandrill mapbox mapquest marketstack mattermost
maxmind mediastack messagebird mistral mixpanel mongodb moralis netlify newrelic newsapi nexmo ngrok notion
numverify nvidia nytimes okta onelogin onesignal openai opencage openweather openweathermap opsgenie owm
pagerduty pandadoc papertrail pastebin paypal pingdom pinterest pipedrive pivotaltracker plaid polygonio
postmark pubnub pushbullet pushover pyowm rapidapi razorpay rebrandly recaptcha rollbar salesforce saucelabs
scalyr scraperapi scrapingbee securitytrails sendbird sendgrid sendinblue sentry serpapi serpstack shodan
shopify signalwire skrapp slack snyk sonar sonarcloud sonarqube sonarlogin sparkpost spoonacular spotify
squareup stackhawk statuscake storyblok stormglass sumologic supabase surveymonkey telegram telnyx tiingo
tomtom travisci trello twilio twitch twitter typeform unsplash urlscan virustotal vonage vultr wakatime
wandb weatherapi weatherbit weatherstack wolframalpha wpengine yelp youtube zapier zendesk zerotier
zipcodeapi zoominfo
"""

VENDORS = tuple(_NAMES.split())
"""In lower case, without blanks and signs."""
