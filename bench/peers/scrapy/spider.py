"""Crawls the host of one URL with Scrapy: every link of every page, no items.

The settings that matter are on the command line, where the benchmark prints
them: JOBDIR, CONCURRENT_REQUESTS, ROBOTSTXT_OBEY, LOG_LEVEL.
"""

from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.linkextractors import LinkExtractor


class Pages(Spider):
    name = "pages"

    def __init__(self, url, **kwargs):
        super().__init__(**kwargs)
        self.url = url
        self.links = LinkExtractor(allow_domains=[urlsplit(url).netloc])

    async def start(self):
        # Of start_urls the duplicate filter would know nothing: a page that
        # links to the root would have it requested again.
        yield Request(self.url)

    def parse(self, response):
        yield from response.follow_all(self.links.extract_links(response), self.parse)
