package agent

import (
	"net/http"
	"time"
)

// patientPiece is how much of an answer has to be taken at a time, in bytes.
const patientPiece = 1 << 20

// A patientWriter gives the client only so long to take each piece of an answer: what
// is not read is kept in the server's memory. A stream on which nothing is written is
// not affected.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	most    time.Duration
}

func patient(w http.ResponseWriter, most time.Duration) *patientWriter {
	p := &patientWriter{w, http.NewResponseController(w), most}
	p.renew() // the connection may have that of an earlier request
	return p
}

func (p *patientWriter) renew() {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.most)) // every TCP connection has deadlines
}

// Write is made of pieces, so that a slow client gets a long answer, too.
func (p *patientWriter) Write(b []byte) (n int, err error) {
	for first := true; first || len(b) > 0 && err == nil; first = false {
		piece := b[:min(len(b), patientPiece)]
		p.renew()
		var wrote int
		wrote, err = p.ResponseWriter.Write(piece)
		n, b = n+wrote, b[len(piece):]
	}
	return n, err
}

func (p *patientWriter) WriteHeader(status int) {
	p.renew()
	p.ResponseWriter.WriteHeader(status)
}

// FlushError is what http.ResponseController calls.
func (p *patientWriter) FlushError() error {
	p.renew()
	return p.control.Flush()
}

// Flush makes it an http.Flusher.
func (p *patientWriter) Flush() { _ = p.FlushError() }

// Unwrap gives http.ResponseController the rest.
func (p *patientWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }
