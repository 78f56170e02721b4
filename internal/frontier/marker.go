package frontier

// MarkerKey is the key of a record without value that a census appends to
// confirm a log's end. It is no fact: the fold steps over it, and compaction
// takes it away.
const MarkerKey = "m"
