package mcpserver

import (
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxReason bounds what a refusal quotes of the line.
const maxReason = 300

// A refusal is the answer to a line that the SDK does not get to see.
type refusal struct {
	id     json.RawMessage // of the request, nil when it is not known or not to be named
	code   int64
	reason string
}

func invalid(id json.RawMessage, reason string) *refusal {
	return &refusal{id: id, code: jsonrpc.CodeInvalidRequest, reason: "invalid request: " + reason}
}

// line is the refusal on the wire, without a newline.
func (r *refusal) line() []byte {
	id := r.id
	if len(id) == 0 || len(id) > maxReason {
		id = json.RawMessage("null")
	}
	type failure struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	}
	data, _ := json.Marshal(struct { // cannot fail: id was parsed
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   failure         `json:"error"`
	}{"2.0", id, failure{r.code, strings.ToValidUTF8(r.reason[:min(len(r.reason), maxReason)], "")}})
	return data
}

// judge decodes a line, or says why it is not to reach the SDK: whatever the
// SDK's decoder refuses would end the session there. Where the request has an
// id that the client can recognise, the refusal carries it.
func judge(line []byte) (jsonrpc.Message, *refusal) {
	var members map[string]json.RawMessage
	err := json.Unmarshal(line, &members)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, &refusal{code: jsonrpc.CodeParseError, reason: "parse error: " + err.Error()}
	case line[0] == '[':
		return nil, invalid(nil, "batches are not taken: send one message a line")
	case err != nil || members == nil:
		return nil, invalid(nil, "a message is an object")
	}
	msg, err := jsonrpc.DecodeMessage(line)
	if err == nil {
		err = complete(msg, members["id"])
	}
	if err != nil {
		return nil, invalid(replyID(members), err.Error())
	}
	return msg, nil
}

// complete finds what the SDK's decoder lets through and then cannot answer.
func complete(msg jsonrpc.Message, id json.RawMessage) error {
	switch msg := msg.(type) {
	case *jsonrpc.Request:
		return checkID(msg, id)
	case *jsonrpc.Response:
		if msg.Result == nil && msg.Error == nil {
			return errors.New("neither method nor result nor error is there")
		}
	}
	return nil
}

// checkID refuses ids that the SDK would change: it keeps numbers as float64
// and cuts them to integers, and takes null for none, so that the client would
// wait for an answer that never comes. Some clients do put a null into their
// notifications.
func checkID(req *jsonrpc.Request, id json.RawMessage) error {
	var number float64
	switch {
	case id == nil || id[0] == '"':
		return nil
	case string(id) == "null":
		if strings.HasPrefix(req.Method, "notifications/") {
			return nil
		}
		return errors.New("the id of a request must not be null")
	case json.Unmarshal(id, &number) != nil || number != math.Trunc(number) || math.Abs(number) >= 1<<53:
		return errors.New("an id must be a string or an integer below 2^53")
	}
	return nil
}

// replyID returns the id of something that was meant as a request: with a
// method, and with an id that is a string or a number.
func replyID(members map[string]json.RawMessage) json.RawMessage {
	id := members["id"]
	if members["method"] == nil || len(id) == 0 {
		return nil
	}
	if id[0] == '"' || id[0] == '-' || ('0' <= id[0] && id[0] <= '9') {
		return id
	}
	return nil
}
