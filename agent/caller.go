package agent

// A Caller is who asks. The transport makes one for each request, and every
// method of Supervisor takes it: there is no ambient identity.
type Caller struct {
	Group string // whose agents it sees; required
	Agent string // the caged agent that calls, "" for a client
}
