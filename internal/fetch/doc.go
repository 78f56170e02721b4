// Package fetch owns one HTTP request to a site: the address policy, the
// limits of time, rate and size, and the class of a failure. Every request
// goes through a colly collector over a transport of our own.
//
// It refuses to follow redirects, to keep cookies, to use proxies of the
// environment, to resend what may have reached a site, and to decide when a
// request may start: that is package batch.
package fetch
