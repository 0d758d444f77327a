package serving

import (
	"io"
	"net/http"
	"time"
)

// ReadInTime ends the deadline of reading a request when it has been read. net/http goes on reading from a connection of HTTP/1
// while its request is answered, to see the client go, and leaves the deadline of [http.Server.ReadTimeout] on it. It would take
// the client for gone once that is over, and end this request, and every later one of the connection before it begins.
//
// Nothing else may set a deadline of reading, or it has to end it itself.
func ReadInTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			// A writer that knows no deadlines is that of a test.
			end := func() { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }
			if r.Body == nil || r.Body == http.NoBody {
				end()
			} else {
				r.Body = &body{r.Body, end}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// body is that of a request which calls end when it has been read.
type body struct {
	io.ReadCloser
	end func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF { // as io.Reader has it
		b.end()
	}
	return n, err
}

// WriteInTime gives the answer of each request its own time. net/http does so where [http.Server.WriteTimeout] is set; where it is not, a
// deadline that is set for one answer stays on its connection, and the next is not written.
func WriteInTime(next http.Handler, limit time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit)) // a writer that knows no deadlines is that of a test
		next.ServeHTTP(w, r)
	})
}
