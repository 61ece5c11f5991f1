package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// recover keeps a panic of one call from ending the process with everybody's
// agents. The SDK leaves that to middleware.
func (s *Server) recover(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.cfg.Log.Error("panic in a call", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				if method == "tools/call" {
					res, err = failure(errInternal), nil
					return
				}
				res, err = nil, errInternal
			}
		}()
		return next(ctx, method, req)
	}
}

var errInternal = errors.New("internal error; the server's log on stderr says more")

// bound makes calls end with lifetime, which is the server's or ends before it: the
// SDK cancels a call only when the client asks for it or goes away.
func (s *Server) bound(lifetime context.Context) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method != "tools/call" {
				return next(ctx, method, req)
			}
			if lifetime.Err() != nil {
				return failure(errors.New("the server is stopping: start it again and repeat the call")), nil
			}
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(lifetime, cancel)()
			return next(ctx, method, req)
		}
	}
}

// failure is a tool's error as clients see it.
func failure(err error) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}
}
