// Package harness runs trawl's real programs as processes for tests that start,
// stop and kill them: it builds each program once, starts it with its output
// captured, waits for what it says, and ends it by its process id.
//
// It refuses to look inside the programs: a test that needs their state asks
// Temporal or Kafka. It starts nothing but what a test asks for, and nothing
// that it started outlives the test.
package harness
