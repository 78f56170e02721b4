package ingest

// This file is the state machine: which state meets which event, what is done
// and which state comes next. No other file decides that. The pairs of state
// and class that cannot happen say why; if one does, it is handled like class 0.

// State of a loader.
type State int

// The states.
const (
	Configure State = iota // the sink is made ready, the position found
	Extract                // the next records of the partition
	Transform              // records into ops
	Load                   // ops into the sink
	Errors                 // failed records into the errors topic

	states = 5
)

var stateNames = [states]string{"configure", "extract", "transform", "load", "errors"}

func (s State) String() string { return stateNames[s] }

// Event is what happens in a state: one of these, or an error of a Class.
type Event int

// The events that are no errors.
const (
	Configured  Event = classes + iota // the sink is open, the position known
	GotNothing                         // the log has nothing more at the moment
	GotBatch                           // records came, or offsets were stepped over
	AllFine                            // every record became an op or is no document
	SomeFailed                         // at least one record failed
	AllLoaded                          // the sink has acknowledged all ops
	SomeRefused                        // all ops are acknowledged or refused for good
	StatedEarly                        // the errors topic has the failures, ops are still to be loaded
	StatedLate                         // the errors topic has the failures, the ops are loaded

	events = classes + 9
)

var eventNames = [events - classes]string{
	"configured", "nothing there", "batch", "all transformed", "some failed", "all loaded", "some refused", "errors stated, ops left", "errors stated, ops loaded",
}

func (e Event) String() string {
	if e < classes {
		return Class(e).String()
	}
	return eventNames[e-classes]
}

// Action is what the machine does on an event.
type Action int

// The actions.
const (
	undefined  Action = iota
	Proceed           // go to the next state
	Advance           // everything up to the batch's end is acknowledged: the position moves, then the next state
	Retry             // wait with growing pauses, then the same work again
	Reset             // forget what is in flight, make fresh clients, configure again
	Reposition        // ask the log for its bounds and move the position by policy
	Isolate           // state the failing record alone in the errors topic and go on with the others
	Shrink            // state a pointer in place of the record that is too big for the errors topic
	Narrow            // as Retry, but what may concern one document or the size of a request halves it, until the poison stands alone
	Impossible        // see Why; handled as Reset
)

var actionNames = map[Action]string{
	Proceed: "proceed", Advance: "advance", Retry: "retry", Reset: "reset", Reposition: "reposition",
	Isolate: "isolate", Shrink: "shrink", Narrow: "narrow", Impossible: "impossible",
}

func (a Action) String() string { return actionNames[a] }

// Step is one cell of the table.
type Step struct {
	Do   Action
	Next State
	Why  string
}

const (
	whyNoSink   = "the sink is not asked in this state"
	whyNoBulk   = "no document is sent in this state"
	whyNoRecord = "no record is read or written in this state"
	whyNoIO     = "transforming does no I/O"
	whyDecoded  = "only transform looks into records"
	whyOriginal = "a redrive's original is gone"
	whyKafka    = "Kafka is not asked in this state"
	whyReset    = "unknown trouble: nothing that is in flight is trusted"
	whyComeBack = "comes back by itself or by an operator; the position waits"
)

var table = [states][events]Step{
	Configure: {
		Configured: {Proceed, Extract, "the sink is open, the position known"},

		Event(Uncategorised):     {Reset, Configure, whyReset},
		Event(KafkaUnavailable):  {Retry, Configure, whyComeBack},
		Event(TopicNotFound):     {Retry, Configure, "the topic may be made, or made again"},
		Event(PartitionNotFound): {Retry, Configure, "partitions may be added"},
		Event(MessageTooBig):     {Impossible, Configure, whyNoRecord},
		Event(OffsetNotFound):    {Reposition, Configure, "no position yet: the source's policy says where to begin"},
		Event(Network):           {Retry, Configure, whyComeBack},
		Event(InvalidFormat):     {Impossible, Configure, whyDecoded},
		Event(InvalidEvent):      {Impossible, Configure, whyDecoded},
		Event(TransformFailed):   {Impossible, Configure, whyDecoded},
		Event(SinkUnavailable):   {Retry, Configure, whyComeBack},
		Event(SinkFailed):        {Retry, Configure, whyComeBack},
		Event(ItemsFailed):       {Impossible, Configure, whyNoBulk},
		Event(SinkRefused):       {Retry, Configure, "rights are missing, or the index must not be created: an operator's"},
	},
	Extract: {
		GotNothing: {Proceed, Extract, "an empty poll is a state change too: the idle time begins"},
		GotBatch:   {Proceed, Transform, "records, or offsets without records, are in hand"},

		Event(Uncategorised):     {Reset, Configure, whyReset},
		Event(KafkaUnavailable):  {Retry, Extract, whyComeBack},
		Event(TopicNotFound):     {Retry, Extract, "the topic may be made, or made again"},
		Event(PartitionNotFound): {Retry, Extract, "partitions may be added"},
		Event(MessageTooBig):     {Isolate, Errors, "a batch above our limits never gets smaller"},
		Event(OffsetNotFound):    {Reposition, Extract, "retention, a lost tail, or a topic made again"},
		Event(Network):           {Retry, Extract, whyComeBack},
		Event(InvalidFormat):     {Impossible, Configure, whyDecoded},
		Event(InvalidEvent):      {Impossible, Configure, whyDecoded},
		Event(TransformFailed):   {Impossible, Configure, whyDecoded},
		Event(SinkUnavailable):   {Impossible, Configure, whyNoSink},
		Event(SinkFailed):        {Impossible, Configure, whyNoSink},
		Event(ItemsFailed):       {Impossible, Configure, whyNoSink},
		Event(SinkRefused):       {Impossible, Configure, whyNoSink},
	},
	Transform: {
		AllFine:    {Proceed, Load, "nothing to state"},
		SomeFailed: {Proceed, Errors, "failures are acknowledged before the sink, the sink before the position"},

		Event(Uncategorised):     {Isolate, Errors, "whatever a transform does concerns one record"},
		Event(KafkaUnavailable):  {Impossible, Configure, whyNoIO},
		Event(TopicNotFound):     {Isolate, Errors, whyOriginal},
		Event(PartitionNotFound): {Isolate, Errors, whyOriginal},
		Event(MessageTooBig):     {Isolate, Errors, "the record or its document is above our limits"},
		Event(OffsetNotFound):    {Isolate, Errors, whyOriginal},
		Event(Network):           {Impossible, Configure, whyNoIO},
		Event(InvalidFormat):     {Isolate, Errors, "decoding it again gives the same"},
		Event(InvalidEvent):      {Isolate, Errors, "validating it again gives the same"},
		Event(TransformFailed):   {Isolate, Errors, "an error, a panic or no end within the limit"},
		Event(SinkUnavailable):   {Impossible, Configure, whyNoSink},
		Event(SinkFailed):        {Impossible, Configure, whyNoSink},
		Event(ItemsFailed):       {Impossible, Configure, whyNoSink},
		Event(SinkRefused):       {Impossible, Configure, whyNoSink},
	},
	Load: {
		AllLoaded:   {Advance, Extract, "errors were stated before"},
		SomeRefused: {Proceed, Errors, "what the sink refuses for good is stated before the position moves"},

		Event(Uncategorised):     {Reset, Configure, whyReset},
		Event(KafkaUnavailable):  {Impossible, Configure, whyKafka},
		Event(TopicNotFound):     {Impossible, Configure, whyKafka},
		Event(PartitionNotFound): {Impossible, Configure, whyKafka},
		Event(MessageTooBig):     {Isolate, Errors, "one document that is too large for the sink"},
		Event(OffsetNotFound):    {Impossible, Configure, whyKafka},
		Event(Network):           {Narrow, Load, "the write may have happened; doing it again changes nothing"},
		Event(InvalidFormat):     {Impossible, Configure, whyDecoded},
		Event(InvalidEvent):      {Isolate, Errors, "the last check before documents are sent: by itself a server would refuse all of them"},
		Event(TransformFailed):   {Impossible, Configure, whyDecoded},
		Event(SinkUnavailable):   {Retry, Load, whyComeBack},
		Event(SinkFailed):        {Narrow, Load, "comes back; one that lasts may be a gateway that a large request is too slow for"},
		Event(ItemsFailed):       {Isolate, Errors, "the sink refused these items; busy ones were sent again before"},
		Event(SinkRefused):       {Narrow, Load, "one document may spoil the request, or rights, index or capacity are missing"},
	},
	Errors: {
		StatedEarly: {Proceed, Load, "the ops of the same batch are next"},
		StatedLate:  {Advance, Extract, "all is acknowledged"},

		Event(Uncategorised):     {Reset, Configure, whyReset},
		Event(KafkaUnavailable):  {Retry, Errors, whyComeBack},
		Event(TopicNotFound):     {Retry, Errors, "the errors topic may be made again"},
		Event(PartitionNotFound): {Retry, Errors, "partitions may be added"},
		Event(MessageTooBig):     {Shrink, Errors, "the original stays in its own topic; a pointer says where"},
		Event(OffsetNotFound):    {Impossible, Configure, "appending has no offset; an original that is gone becomes a pointer"},
		Event(Network):           {Retry, Errors, "the record may be there twice; its id says so"},
		Event(InvalidFormat):     {Impossible, Configure, whyDecoded},
		Event(InvalidEvent):      {Impossible, Configure, whyDecoded},
		Event(TransformFailed):   {Impossible, Configure, whyDecoded},
		Event(SinkUnavailable):   {Impossible, Configure, whyNoSink},
		Event(SinkFailed):        {Impossible, Configure, whyNoSink},
		Event(ItemsFailed):       {Impossible, Configure, whyNoSink},
		Event(SinkRefused):       {Impossible, Configure, whyNoSink},
	},
}

// StepOf answers what a state does on an event. An event that the state cannot
// meet, class or not, is Impossible.
func StepOf(s State, e Event) Step {
	if s < 0 || s >= states || e < 0 || e >= events || table[s][e].Do == undefined {
		return Step{Impossible, Configure, "no such event in this state"}
	}
	return table[s][e]
}

// Table lists every defined cell, in order, for drawings and matrix tests.
func Table(visit func(State, Event, Step)) {
	for s := range State(states) {
		for e := range Event(events) {
			if table[s][e].Do != undefined {
				visit(s, e, table[s][e])
			}
		}
	}
}
