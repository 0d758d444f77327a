package serving

import (
	"io"
	"net/http"
	"time"
)

// ReadInTime clears the read deadline of a request when it has been read. While net/http answers an HTTP/1 request, it continues to read from the
// connection to detect a disconnect, with the deadline of [http.Server.ReadTimeout] still set. When that passes, it would consider the client gone,
// and cancel this request and every later one of the connection before it begins.
//
// Nothing else may set a read deadline without clearing it.
func ReadInTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			// Only writers of tests do not support deadlines.
			end := func() { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }
			if r.Body == nil || r.Body == http.NoBody {
				end()
			} else {
				r.Body = &trackedBody{r.Body, end}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// trackedBody is a request body that calls end when it has been read.
type trackedBody struct {
	io.ReadCloser
	end func()
}

func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF { // as io.Reader requires
		b.end()
	}
	return n, err
}

// WriteInTime gives the answer of each request its own deadline. net/http does so if [http.Server.WriteTimeout] is set. Otherwise a deadline set for
// one answer stays on its connection, and the next answer is not written.
func WriteInTime(next http.Handler, limit time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit)) // only writers of tests do not support deadlines
		next.ServeHTTP(w, r)
	})
}
