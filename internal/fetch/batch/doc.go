// Package batch owns one Fetch: it requests the locators of a contract.Batch
// as politely as each host asks, turns answers into page records and facts,
// and flushes them in the order that the frontier relies on: pages and
// discovered locators are acknowledged before the facts that end a locator.
//
// It refuses to decide what is due, to keep anything that the next Fetch would
// need, and to know how a heartbeat or a task queue works.
package batch
