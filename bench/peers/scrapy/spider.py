"""Crawls the host of one URL with Scrapy: every link of every page, no items.

The settings that matter are on the command line, where the benchmark prints
them: JOBDIR, CONCURRENT_REQUESTS, ROBOTSTXT_OBEY, LOG_LEVEL.
"""

from urllib.parse import urlsplit

from scrapy import Spider
from scrapy.linkextractors import LinkExtractor


class Pages(Spider):
    name = "pages"

    def __init__(self, url, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [url]
        self.links = LinkExtractor(allow_domains=[urlsplit(url).hostname])

    def parse(self, response):
        yield from response.follow_all(self.links.extract_links(response), self.parse)
