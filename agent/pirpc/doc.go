// Package pirpc holds one conversation with "pi --mode rpc" over two byte
// streams. It knows records and nothing of processes: who starts pi, in what
// cage, and who ends it is the caller's business.
//
// The protocol is described by the pages rpc.md, rpc-commands.md, json.md and
// rpc-extension-ui.md that ship with pi. What this package builds on, as seen
// in the output of pi 1.6.0:
//
//   - A record is one JSON object and the LF after it. Nothing else ends a
//     record: U+2028 and U+2029 stand raw inside strings, and a record may be
//     many MiB long.
//   - A command carries an id. Its response repeats the id as its first member;
//     responses come in any order, between other records. A command that pi
//     cannot parse gets a response without an id.
//   - An event begins with its type: {"type":"agent_start"}. More than nine
//     tenths of the bytes are the events message_update and
//     tool_execution_update, the deltas, which repeat in pieces what a later
//     record says as a whole.
//   - A dialog, which is an extension_ui_request with one of four methods,
//     blocks pi's turn until it is answered.
//
// # A conversation
//
// This is one turn, shortened, with what the client writes marked by ">":
//
//	> {"id":"1","message":"Hello","streamingBehavior":"followUp","type":"prompt"}
//	{"id":"1","type":"response","command":"prompt","success":true,"data":{"disposition":"started"}}
//	{"type":"agent_start"}
//	{"type":"turn_start"}
//	{"type":"message_start","message":{"role":"user",...}}
//	{"type":"message_end","message":{"role":"user",...}}
//	{"type":"message_start","message":{"role":"assistant",...}}
//	{"type":"message_update",...}                                   many of these
//	{"type":"message_end","message":{"role":"assistant",...}}
//	{"type":"turn_end",...}
//	{"type":"agent_end","messages":[...],"willRetry":false}
//	{"type":"agent_settled","aborted":false}
//
// Things that the pages do not say and that surprise a caller:
//
//   - Pi works on several commands at once. A clear_queue that is sent right
//     behind a queued prompt can overtake it, and then clears nothing: wait for
//     the prompt's answer first.
//   - An abort is answered after the agent_settled that it causes. Without a run
//     it is answered all the same, and no agent_settled comes.
//   - The first run of a session begins with a message of the role "system".
//   - A get_last_assistant_text that finds no text answers with data {}, where
//     the page says that text is null.
//
// # Order
//
// One goroutine reads. It calls Config.On for each record and the answered
// function of each command in the order in which pi wrote them, one at a time,
// so a caller that feeds both into one queue sees one history. Neither may
// block for long: pi stalls meanwhile. And neither may use Client.Call, whose
// answer could not be read; Client.Send is fine.
//
// # Bounds
//
// A conversation holds at most about twice Config.MaxRecord bytes of what pi
// says, and about Config.MaxQueued bytes of what it was told and has not read,
// whatever pi does. A longer record is not lost: it is known by its beginning,
// and arrives as a Record with Cut set, or as a Response with ErrTooLong.
//
// # Trust
//
// Pi, or whatever took its place, may write anything. No output ends the
// conversation but its end: a line that is no record is counted, handed to On,
// and the next one is read. Two things are believed: that a record has one
// type, and that a record of a type that nobody wants is well formed.
package pirpc
