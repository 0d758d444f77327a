package serving

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"
)

// AnswerFunc answers a request that the handler left unanswered. A request that was not begun has changed nothing.
type AnswerFunc func(w http.ResponseWriter, r *http.Request, begun bool)

// EnsureAnswered ensures that every request gets an answer: net/http turns silence into status 200 without a body, which a client takes for success.
// An unanswered request gets its answer from say, and its connection is closed.
//
// On HTTP/1 the context of a connection ends once, and with it every later request of that connection. Such a request is not begun.
func EnsureAnswered(next http.Handler, say AnswerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 && r.Context().Err() != nil {
			w.Header().Set("Connection", "close")
			say(w, r, false)
			return
		}
		out := &answerTracker{}
		next.ServeHTTP(out.wrapWriter(w), r)
		if out.answered {
			return
		}
		if r.ProtoMajor < 2 || r.Context().Err() == nil { // a client that cancels one HTTP/2 request keeps its other requests
			w.Header().Set("Connection", "close")
		}
		say(w, r, true)
	})
}

// answerTracker records whether anything was answered.
type answerTracker struct{ answered bool }

func (o *answerTracker) wrapWriter(w http.ResponseWriter) http.ResponseWriter {
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(write httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(status int) {
				o.answered = o.answered || status >= http.StatusOK || status == http.StatusSwitchingProtocols
				write(status)
			}
		},
		Write: func(write httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(p []byte) (int, error) {
				o.answered = true
				return write(p)
			}
		},
		ReadFrom: func(read httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(from io.Reader) (int64, error) {
				o.answered = true
				return read(from)
			}
		},
		Hijack: func(hijack httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				connection, buffered, err := hijack()
				o.answered = o.answered || err == nil
				return connection, buffered, err
			}
		},
	})
}
