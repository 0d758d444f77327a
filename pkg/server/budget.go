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

// budgets are the resources that all callers share. A caller that asks for much waits for its own requests only and does not delay other callers.
type budgets struct {
	// bodies bounds the bytes of large request bodies in flight.
	bodies *fair.Gate
	// computing bounds CPU-heavy work: parsing large YAML and simulating the queue. One core always stays free.
	computing *fair.Gate
	// simulating bounds simulator processes. Each takes a core and a few hundred megabytes for seconds.
	simulating *fair.Gate
	// reading bounds answers of many megabytes that are built in memory: output, and explanations of a job.
	reading *fair.Gate
	// opening bounds output streams that are starting. Each asks the API server a few questions about the job.
	opening *fair.Gate
	// answers bounds answers that are being built or that wait for a slow client.
	answers *serving.Answers
	// querying bounds queries to Prometheus.
	querying *fair.Gate
	// ledger bounds queries to the ledger. Each holds some megabytes until they can be sent on.
	ledger *fair.Gate
}

func newBudgets() *budgets {
	return &budgets{
		bodies:     fair.New(fair.Limits{Total: 48 << 20, Each: 8 << 20, Waiting: 64}),
		computing:  fair.New(fair.Limits{Total: max(1, runtime.GOMAXPROCS(0)-1), Each: 1, Waiting: 64}),
		simulating: fair.New(fair.Limits{Total: 2, Each: 1, Waiting: 2}),
		reading:    fair.New(fair.Limits{Total: 8, Each: 2, Waiting: 32}),
		opening:    fair.New(fair.Limits{Total: 8, Each: 2, Waiting: 2 * DefaultStreams}),
		answers:    serving.NewAnswers(48<<20, 2*maxLogPage),
		querying:   fair.New(fair.Limits{Total: 8, Each: 2, Waiting: 32}),
		ledger:     fair.New(fair.Limits{Total: 4, Each: 1, Waiting: 8}),
	}
}

const (
	// requestTimeout bounds a request that is not a stream, including the time it waits for its slot.
	requestTimeout = 30 * time.Second
	// smallBody is a size that nearly all requests stay below. Smaller bodies skip the queue.
	smallBody = 16 << 10
	// maxDocuments bounds the documents of a request that queries the cluster for each of them.
	maxDocuments = 100
)

// acquireSlot waits for a slot of the gate and returns the function that frees it before the request ends. It returns 429 if the wait fails, because the
// caller sends more than the server can process.
func acquireSlot(ctx context.Context, gate *fair.Gate, size int) (leave func(), err error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	leave, err = gate.Enter(ctx, caller.User.GetName(), size)
	if errors.As(err, new(*fair.FullError)) || errors.Is(err, context.DeadlineExceeded) {
		return nil, &refusal{status: http.StatusTooManyRequests, code: "TooManyRequests",
			text: "requests of yours that take long are carried out one after the other, and too many wait: send this one again later"}
	}
	if err == nil {
		releaseAtEnd(ctx, leave)
	}
	return leave, err
}

// acquireReadSlot waits for a slot to parse YAML if the text is long.
func (s *Server) acquireReadSlot(ctx context.Context, text string) (leave func(), err error) {
	if len(text) <= smallText {
		return func() {}, nil
	}
	return acquireSlot(ctx, s.budgets.computing, 1)
}

type decodedKey struct{}

// endDecoding frees the CPU slot that a request holds while its body is decoded.
func endDecoding(ctx context.Context) {
	if leave, ok := ctx.Value(decodedKey{}).(func()); ok {
		leave()
	}
}

// withBodyLimits reads the body before any other processing, within the bytes that the caller may have in flight. It rejects bodies that would expand in
// memory: compressed ones, and ones with more values than any route takes.
func (s *Server) withBodyLimits(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := callerFrom(r.Context()); err != nil || r.Body == nil || r.ContentLength == 0 {
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

// encodeInSlot waits for a slot before it decodes a large body. It runs after [idempotency.withIdempotency]: a request that waits there for another one
// with its key must not hold the slot that the other one needs.
func (s *Server) withDecodeSlot(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := callerFrom(r.Context()); err != nil || r.ContentLength <= readAtOnce(r.Header.Get("Content-Type")) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		think, err := acquireSlot(ctx, s.budgets.computing, 1)
		if err != nil {
			writeFailure(w, r, err)
			return
		}
		defer think()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), decodedKey{}, think)))
	})
}

// readAtOnce is the largest body of a type, in bytes, that is decoded without a slot. That takes some milliseconds of a core at most. JSON decodes
// about ten times faster than YAML.
func readAtOnce(contentType string) int64 {
	if isYAML(contentType) {
		return smallBody
	}
	return 8 * smallBody
}

// readBody reads a small body at once. It reads a larger one when the caller's bytes in flight are below the limit.
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
		if leave, err = acquireSlot(ctx, s.budgets.bodies, int(size)); err != nil {
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

// Limits of a body: more values than any route takes, and a depth beyond that of any real request.
const (
	maxValues = 20_000
	maxDepth  = 64
)

// checkBody counts the values of a JSON body before decoding, because each decoded value, and each problem found with it, takes a few hundred bytes
// more. YAML gets a cheap check here and is counted while it is parsed.
func checkBody(contentType string, body []byte) error {
	if isYAML(contentType) {
		if n := countSeparators(body); n > maxSeparators {
			return invalidErrorf("the body has %d lines, commas and brackets, at most %d are read as YAML: send JSON", n, maxSeparators)
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
		return invalidErrorf("the body is nested %d levels deep, at most %d are read", deepest, maxDepth)
	case values > maxValues:
		return invalidErrorf("the body has %d values, at most %d are read", values, maxValues)
	}
	return nil
}
