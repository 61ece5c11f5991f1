package main

// state is what get_state answers.
func (p *pi) state() fields {
	p.mu.Lock()
	defer p.mu.Unlock()
	var file any
	if p.session.path != "" {
		file = p.session.path
	}
	return fields{
		{"model", fields{
			{"id", p.opts.model}, {"name", p.opts.model}, {"api", "openai-completions"}, {"provider", p.opts.provider},
			{"baseUrl", "http://127.0.0.1:9/v1"}, {"reasoning", false}, {"input", []string{"text"}},
			{"cost", fields{{"input", 0}, {"output", 0}, {"cacheRead", 0}, {"cacheWrite", 0}}},
			{"contextWindow", p.opts.window()}, {"maxTokens", 16384},
		}},
		{"thinkingLevel", p.opts.thinking},
		{"isStreaming", p.run != nil},
		{"isCompacting", false},
		{"steeringMode", "one-at-a-time"},
		{"followUpMode", "one-at-a-time"},
		{"sessionFile", file},
		{"sessionId", p.session.id},
		{"autoCompactionEnabled", true},
		{"messageCount", p.session.total()},
		{"pendingMessageCount", len(p.steering) + len(p.followUp)},
	}
}

// stats is what get_session_stats answers.
func (s *session) stats() fields {
	s.mu.Lock()
	defer s.mu.Unlock()
	users, answers := s.counts["user"], s.counts["assistant"]
	in, out := answers*inputTokens, answers*outputTokens
	total := 0
	for _, n := range s.counts {
		total += n
	}
	var file any
	if s.path != "" {
		file = s.path
	}
	return fields{
		{"sessionFile", file},
		{"sessionId", s.id},
		{"userMessages", users},
		{"assistantMessages", answers},
		{"toolCalls", 0},
		{"toolResults", 0},
		{"totalMessages", total},
		{"tokens", fields{{"input", in}, {"output", out}, {"cacheRead", 0}, {"cacheWrite", 0}, {"total", in + out}}},
		{"cost", float64(answers) * answerCost},
		{"contextUsage", fields{
			{"tokens", in + out}, {"contextWindow", defaultWindow}, {"percent", float64(in+out) * 100 / defaultWindow},
		}},
	}
}

// last is what get_last_assistant_text answers: without a text, no member.
func (s *session) last() fields {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastText == "" {
		return fields{}
	}
	return fields{{"text", s.lastText}}
}

// total is the number of messages.
func (s *session) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.counts {
		n += c
	}
	return n
}
