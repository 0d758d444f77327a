// Package server answers questions about placements over HTTP, in JSON:
//
//	GET /explain/v1/pods/{namespace}/{name}      the record of one pod
//	GET /explain/v1/pods/{namespace}/?job={job}  those of a job, or of the namespace: {"items": [...]}
//
// Only the leader places pods, so only the leader has records. A standby answers 503 and names the leader. The path
// has the namespace first, so that a nonResourceURL such as /explain/v1/pods/team-a/* grants those of one namespace.
// Who asks, and whether they may, is decided before the handler.
package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/fair"
	"g8s.host/gpu-scheduler/pkg/serving"
)

// Root is the path under which everything is served.
const Root = "/explain/v1/"

// Leader returns the identity of the leader, and whether this process is the leader.
type Leader func(context.Context) (identity string, here bool, err error)

// Failure is the body of every answer without a record.
type Failure struct {
	Error string `json:"error"`
	// Leader is the identity of the process that has the records, if this one has none.
	Leader string `json:"leader,omitempty"`
}

// List is the body of an answer with several records.
type List struct {
	Items []explain.Record `json:"items"`
}

// The scheduler itself serves these requests, so the memory of answers is bounded: the number that are built at once (one per user or namespace), and
// the bytes of those that wait to be read. No answer is larger than the recorder's content plus JSON overhead.
const (
	maxConcurrent = 2
	maxWaiting    = 64
	allAnswers    = 64 << 20
	eachAnswers   = 32 << 20
	// answerTime is the time limit of an answer, longer if it is read in parts.
	answerTime = 2 * time.Minute
	// maxConnections is the maximum number of open connections, each of which takes some tens of kilobytes.
	maxConnections = 512
)

type handler struct {
	recorder *explain.Recorder
	leader   Leader
	// places limits the answers that are being built, and answers those that wait to be read.
	places  *fair.Gate
	answers *serving.Answers
}

// NewHandler serves the records of a recorder. A nil leader means that there is no election, and this process leads.
func NewHandler(recorder *explain.Recorder, leader Leader) http.Handler {
	h := &handler{
		recorder: recorder, leader: leader, places: fair.New(fair.Limits{Total: maxConcurrent, Each: 1, Waiting: maxWaiting}),
		answers: serving.NewAnswers(allAnswers, eachAnswers),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Root+"pods/{namespace}/{name}", h.servePod)
	mux.HandleFunc("GET "+Root+"pods/{namespace}/{$}", h.serveList)
	return serving.EnsureAnswered(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.answers.ServeBounded(w, r, mux, whoAsks(r), func(w http.ResponseWriter, err error) {
			writeReply(w, http.StatusTooManyRequests, Failure{Error: err.Error()})
		})
	}), replyUnanswered)
}

// BoundListener limits the connections of an HTTP/1 server, which is built from a listener and a handler, and the time of each answer.
func BoundListener(listener net.Listener, next http.Handler) (net.Listener, http.Handler) {
	return serving.BoundListener(listener, serving.WriteInTime(next, answerTime), maxConnections, time.Now)
}

// whoAsks returns the name of the user, "" if the request is not authenticated.
func whoAsks(r *http.Request) string {
	if who, ok := request.UserFrom(r.Context()); ok {
		return who.GetName()
	}
	return ""
}

func replyUnanswered(w http.ResponseWriter, _ *http.Request, begun bool) {
	if begun {
		writeReply(w, http.StatusInternalServerError, Failure{Error: "the question was not answered: ask again"})
		return
	}
	writeReply(w, http.StatusServiceUnavailable, Failure{Error: "the connection has ended: ask again on another one"})
}

func (h *handler) servePod(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	record, ok := h.recorder.Pod(namespace, name)
	if !ok {
		h.replyMissing(w, r, fmt.Sprintf("no attempt to place pod %s/%s is on record", namespace, name))
		return
	}
	writeReply(w, http.StatusOK, record)
}

func (h *handler) serveList(w http.ResponseWriter, r *http.Request) {
	leave, err := h.places.Enter(r.Context(), serving.PayingIdentity(whoAsks(r)), 1)
	if err != nil {
		writeReply(w, http.StatusTooManyRequests, Failure{Error: err.Error()})
		return
	}
	serving.UntilSent(r.Context(), leave)
	items := h.recorder.Pods(r.PathValue("namespace"), r.URL.Query().Get("job"))
	if len(items) == 0 {
		if identity, here := h.findLeader(r); !here {
			replyStandby(w, identity)
			return
		}
		items = []explain.Record{}
	}
	writeReply(w, http.StatusOK, List{Items: items})
}

// replyMissing distinguishes an unknown pod from a process that has no records.
func (h *handler) replyMissing(w http.ResponseWriter, r *http.Request, text string) {
	if identity, here := h.findLeader(r); !here {
		replyStandby(w, identity)
		return
	}
	writeReply(w, http.StatusNotFound, Failure{Error: text})
}

// findLeader treats a process that cannot determine the leader as a standby: it could not place pods either.
func (h *handler) findLeader(r *http.Request) (identity string, here bool) {
	if h.leader == nil {
		return "", true
	}
	identity, here, err := h.leader(r.Context())
	return identity, here && err == nil
}

func replyStandby(w http.ResponseWriter, identity string) {
	writeReply(w, http.StatusServiceUnavailable, Failure{
		Error: "this scheduler stands by and has no records: ask the leader", Leader: identity,
	})
}

func writeReply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = serving.EncodeInTurn(w, func(out io.Writer) error { return json.NewEncoder(out).Encode(body) }) // the caller is gone
}
