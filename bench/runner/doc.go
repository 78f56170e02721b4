// Package runner measures crawlers side by side: it starts the site server and
// each contender as processes of their own, in turn, for some rounds, and asks
// the site's log what was requested. A contender that missed a page or fetched
// one twice is reported as wrong, however fast it was.
//
// It owns what is measured and how (process times, memory, histories, bytes of
// the log) and the report. It refuses to crawl, to look inside the programs,
// and to touch a process that it did not start.
package runner
