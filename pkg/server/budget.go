package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime"
	"strings"
	"time"

	"g8s.host/gpu-scheduler/pkg/fair"
	"g8s.host/gpu-scheduler/pkg/serving"
)

// budgets are what all callers share. One who asks for much waits for their own, and no other caller for them.
type budgets struct {
	// bodies are bytes of requests in flight that are larger than most.
	bodies *fair.Gate
	// thinking is for what takes a core for a while: reading large YAML, playing the line forward. One core is always left to others.
	thinking *fair.Gate
	// simulating is for processes that take a core and some hundred megabytes for seconds.
	simulating *fair.Gate
	// reading is for answers of many megabytes that are put together in memory: output, and what explains a job.
	reading *fair.Gate
	// opening is for streams of output that begin, each with some questions to the API server about the job.
	opening *fair.Gate
	// answers are those that are put together, or wait to be read: a client may be slow.
	answers *serving.Answers
	// asking is for questions to Prometheus.
	asking *fair.Gate
	// ledger is for questions to the ledger, each of some megabytes until there is room to send them on.
	ledger *fair.Gate
}

func newBudgets() *budgets {
	return &budgets{
		bodies:     fair.New(fair.Limits{Total: 48 << 20, Each: 8 << 20, Waiting: 64}),
		thinking:   fair.New(fair.Limits{Total: max(1, runtime.GOMAXPROCS(0)-1), Each: 1, Waiting: 64}),
		simulating: fair.New(fair.Limits{Total: 2, Each: 1, Waiting: 2}),
		reading:    fair.New(fair.Limits{Total: 8, Each: 2, Waiting: 32}),
		opening:    fair.New(fair.Limits{Total: 8, Each: 2, Waiting: 2 * DefaultStreams}),
		answers:    serving.NewAnswers(48<<20, 2*maxLogPage),
		asking:     fair.New(fair.Limits{Total: 8, Each: 2, Waiting: 32}),
		ledger:     fair.New(fair.Limits{Total: 4, Each: 1, Waiting: 8}),
	}
}

const (
	// requestTimeout is how long a request may take that is no stream, waiting for its turn included.
	requestTimeout = 30 * time.Second
	// smallBody is what nearly every request is smaller than, so that it waits for nobody.
	smallBody = 16 << 10
	// maxDocuments is how many documents a request may hold that asks the cluster about each.
	maxDocuments = 100
)

// take waits for the caller's turn, and returns what gives it back before the request ends. What waits to no avail is 429: the caller sends more
// than is carried out.
func take(ctx context.Context, gate *fair.Gate, size int) (leave func(), err error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	leave, err = gate.Enter(ctx, caller.User.GetName(), size)
	if errors.As(err, new(*fair.FullError)) || errors.Is(err, context.DeadlineExceeded) {
		return nil, &refusal{status: http.StatusTooManyRequests, code: "TooManyRequests",
			text: "requests of yours that take long are carried out one after the other, and too many wait: send this one again later"}
	}
	if err == nil {
		untilTheEnd(ctx, leave)
	}
	return leave, err
}

// takeToRead waits for the caller's turn to read a text in YAML, if that is so long that it takes a while.
func (s *Server) takeToRead(ctx context.Context, text string) (leave func(), err error) {
	if len(text) <= smallText {
		return func() {}, nil
	}
	return take(ctx, s.budgets.thinking, 1)
}

type decodedKey struct{}

// decoded ends the time in which a request is taken apart, for which it may hold a core.
func decoded(ctx context.Context) {
	if leave, ok := ctx.Value(decodedKey{}).(func()); ok {
		leave()
	}
}

// weighed reads the body of a request before anything is done with it, within what the caller may have in flight, and
// refuses one that would become much more than it is: compressed, or of far more values than any route takes.
func (s *Server) weighed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := callerOf(r.Context()); err != nil || r.Body == nil || r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		body, leave, err := s.readBody(ctx, r)
		defer leave()
		if err == nil {
			err = checkBody(r.Header.Get("Content-Type"), body)
		}
		if err != nil {
			writeFailure(w, r, err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.ContentLength = int64(len(body))
		next.ServeHTTP(w, r)
	})
}

// inTurn waits for the caller's turn before a large body is taken apart. It comes after [idempotency.once]: a
// request that waits there for another of its key must not hold the turn that the other needs.
func (s *Server) inTurn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := callerOf(r.Context()); err != nil || r.ContentLength <= readAtOnce(r.Header.Get("Content-Type")) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		think, err := take(ctx, s.budgets.thinking, 1)
		if err != nil {
			writeFailure(w, r, err)
			return
		}
		defer think()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), decodedKey{}, think)))
	})
}

// readAtOnce is how large a body of a type may be, in bytes, to be taken apart without waiting for a turn: some
// milliseconds of a core at most, and JSON is read some ten times faster than YAML.
func readAtOnce(contentType string) int64 {
	if isYAML(contentType) {
		return smallBody
	}
	return 8 * smallBody
}

// readBody reads a small body at once, and a larger one when the caller has fewer bytes in flight than one may have.
func (s *Server) readBody(ctx context.Context, r *http.Request) (body []byte, leave func(), err error) {
	leave = func() {}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, leave, &refusal{status: http.StatusUnsupportedMediaType, code: "UnsupportedMediaType",
			text: fmt.Sprintf("the body has the Content-Encoding %q: send it as it is", encoding)}
	}
	if kind := r.Header.Get("Content-Type"); kind != "" {
		if _, _, err := mime.ParseMediaType(kind); err != nil {
			return nil, leave, &refusal{status: http.StatusUnsupportedMediaType, code: "UnsupportedMediaType",
				text: fmt.Sprintf("the Content-Type %q is none: send application/json", kind)}
		}
	}
	body, err = io.ReadAll(io.LimitReader(r.Body, smallBody+1))
	if err == nil && len(body) > smallBody {
		size := s.options.MaxBody
		if r.ContentLength > 0 {
			size = min(size, r.ContentLength)
		}
		if leave, err = take(ctx, s.budgets.bodies, int(size)); err != nil {
			return nil, func() {}, err
		}
		var rest []byte
		rest, err = io.ReadAll(r.Body)
		body = append(body, rest...)
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		err = &refusal{status: http.StatusRequestEntityTooLarge, code: "TooLarge",
			text: fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit)}
	case err != nil:
		err = &refusal{status: http.StatusBadRequest, code: "BadRequest", text: "the body cannot be read: it broke off, or came too slowly"}
	}
	return body, leave, err
}

func isYAML(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && strings.HasSuffix(kind, "yaml")
}

// What a body may hold: more values than any route takes, no deeper than anybody writes.
const (
	maxValues = 20_000
	maxDepth  = 64
)

// checkBody counts the values of a body in JSON before they are made, each of which is some hundred bytes larger then,
// as is each problem that is found with one. YAML is counted where it is read, and cheaply here.
func checkBody(contentType string, body []byte) error {
	if isYAML(contentType) {
		if n := separators(body); n > maxSeparators {
			return invalidf("the body has %d lines, commas and brackets, at most %d are read as YAML: send JSON", n, maxSeparators)
		}
		return nil
	}
	values, depth, deepest := 0, 0, 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			for i++; i < len(body) && body[i] != '"'; i++ {
				if body[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			values++
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth--
		case ',', ':':
			values++
		}
	}
	switch {
	case deepest > maxDepth:
		return invalidf("the body is nested %d levels deep, at most %d are read", deepest, maxDepth)
	case values > maxValues:
		return invalidf("the body has %d values, at most %d are read", values, maxValues)
	}
	return nil
}
