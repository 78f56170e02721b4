// Package archtest holds the architecture as tests: who may import whom, who
// alone constructs which client, what workflow code may not call, and what the
// programs may not be linked with. It owns the tables of those rules, and for
// each rule a fixture that breaks it. It refuses to be imported: there is
// nothing here but tests.
package archtest
