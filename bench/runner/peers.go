package runner

import "path/filepath"

// scrapyFile is, below the directory of this repository, in which the
// benchmark runs, the spider of ours that makes Scrapy crawl.
const scrapyFile = "bench/peers/scrapy/spider.py"

// peerList are crawlers of other people, installed in a directory by "make
// peers"; empty: none. They keep no page, which trawl does, and they crawl one
// host only.
func peerList(dir string, w Web) []Contender {
	if dir == "" || w.Hosts > 1 || w.polite > 0 {
		return nil
	}
	spider := []string{filepath.Join(dir, "spider", "release", "spider-peer"), "{URL}"}
	spiderDiffers := []string{"with_concurrency_limit(16)", "with_respect_robots_txt(false) and with_delay(0), which are its defaults", "TMPDIR (the measurement's own)"}
	const temporary = "TMPDIR={DIR}"
	return []Contender{
		{
			Name: spiderMemory, Web: w.Name, Command: spider, Env: []string{temporary, "LINKS_VISITED_MEMORY_LIMIT=1000000000"},
			Differs: append([]string{"LINKS_VISITED_MEMORY_LIMIT=1000000000: all visited pages in memory"}, spiderDiffers...),
		},
		{Name: spiderDisk, Web: w.Name, Command: spider, Env: []string{temporary}, Differs: spiderDiffers},
		{
			Name: scrapyDir, Web: w.Name,
			Command: []string{
				filepath.Join(dir, "scrapy", "bin", "python"), "-m", "scrapy", "runspider", scrapyFile, "-a", "url={URL}",
				"-s", "JOBDIR={DIR}/job", "-s", "CONCURRENT_REQUESTS=16", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=16",
				"-s", "ROBOTSTXT_OBEY=False", "-s", "LOG_LEVEL=WARNING",
			},
			Differs: []string{
				"JOBDIR: it can be resumed", "CONCURRENT_REQUESTS_PER_DOMAIN=16 (default 8)",
				"CONCURRENT_REQUESTS=16 and ROBOTSTXT_OBEY=False, which are its defaults", "LOG_LEVEL=WARNING (it would log each request)",
			},
		},
	}
}
