// Package server serves the ledger over HTTP, in JSON:
//
//	GET /ledger/v1/usage                   sums: ?by=user,pool&namespace=a&user=&pool=&since=&until=
//	GET /ledger/v1/jobs                    jobs that have finished: ?namespace=a&name=&user=&pool=&since=&until=&limit=
//	GET /ledger/v1/jobs/{namespace}/{uid}  one of them, with what its pods held
//	GET /ledger/v1/runs                    for how long jobs held GPUs, those that have ended: ?namespace=a&since=&until=&limit=
//	GET /ledger/v1/output/{namespace}/{job}  the end of what its containers printed: ?pod=&container=
//	GET /metrics                           for Prometheus: callers with the right to get that path
//
// A caller that may list the pods of a namespace may query it, and one that may list all pods may omit the namespace. Output requires the right to
// pod logs. Times are RFC 3339. Every query reads a part of the file, so only a few run at a time, and one per user.
package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
	"g8s.host/gpu-scheduler/pkg/serving"
)

const (
	// atOnce is how many queries run at a time, and slotTimeout how long others wait.
	atOnce      = 2
	slotTimeout = 20 * time.Second
	// maxNamespaces and maxItems bound a query and its answer.
	maxNamespaces = 200
	maxItems      = 20000
	defaultItems  = 500
	// maxAnswer bounds an answer in bytes: the rest is omitted and marked as such. Answers that wait to be read are bounded by allAnswers in total
	// and by eachAnswers per caller.
	maxAnswer   = 8 << 20
	allAnswers  = 160 << 20
	eachAnswers = 96 << 20
	// defaultSince is the default range of a query.
	defaultSince = 30 * 24 * time.Hour
)

// Options configure the handler.
type Options struct {
	Store *store.Store
	// Gate authenticates callers.
	Gate *Gate
	Log  *slog.Logger
	Now  func() time.Time
	// Pods is the Store's name for the recording of pods.
	Pods string
}

type handler struct {
	Options
	slots *semaphore.Weighted
	// answers bounds those that wait to be read.
	answers   *serving.Answers
	mu        sync.Mutex
	busyUsers map[string]bool
	// questions counts answers by status.
	questions *prometheus.CounterVec
}

// Handler returns the handler of the ledger's API.
func Handler(o Options) http.Handler {
	own := newMetrics(o.Store)
	h := &handler{Options: o, slots: semaphore.NewWeighted(atOnce), answers: serving.NewAnswers(allAnswers, eachAnswers), busyUsers: map[string]bool{}, questions: own.questions}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+metricsPath, h.serveMetrics(own))
	mux.HandleFunc("GET "+ledger.APIRoot+"usage", h.handleQuestion(h.getUsage))
	mux.HandleFunc("GET "+ledger.APIRoot+"jobs", h.handleQuestion(h.listJobs))
	mux.HandleFunc("GET "+ledger.APIRoot+"jobs/{namespace}/{uid}", h.handleQuestion(h.getJob))
	mux.HandleFunc("GET "+ledger.APIRoot+"runs", h.handleQuestion(h.listRuns))
	mux.HandleFunc("GET "+ledger.APIRoot+"output/{namespace}/{job}", h.handleQuestion(h.getOutput))
	return serving.EnsureAnswered(serving.ReadInTime(o.Gate.withAuthentication(mux)), writeUnanswered)
}

// writeUnanswered answers for a handler that did not answer.
func writeUnanswered(w http.ResponseWriter, _ *http.Request, begun bool) {
	if begun {
		writeReply(w, http.StatusInternalServerError, ledger.Failure{Error: "the question was not answered: ask again"})
		return
	}
	writeReply(w, http.StatusServiceUnavailable, ledger.Failure{Error: "the connection has ended: ask again on another one"})
}

// failure is an error with a status.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

func badRequest(text string) error { return &failure{http.StatusBadRequest, text} }

// handleQuestion wraps a query: it provides a slot until the answer is built, room for the answer until it is read, and the error if there is none.
func (h *handler) handleQuestion(ask func(*http.Request) (any, error)) http.HandlerFunc {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, body := h.answerQuestion(r, ask)
		h.questions.WithLabelValues(strconv.Itoa(status)).Inc()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(body) // the caller is gone
	})
	return func(w http.ResponseWriter, r *http.Request) {
		who, ok := request.UserFrom(r.Context())
		if !ok {
			writeReply(w, http.StatusUnauthorized, ledger.Failure{Error: "it is not known who asks"})
			return
		}
		h.answers.ServeBounded(w, r, answer, who.GetName(), func(w http.ResponseWriter, err error) {
			writeReply(w, http.StatusTooManyRequests, ledger.Failure{Error: err.Error()})
		})
	}
}

// answerQuestion builds an answer once it has a slot.
func (h *handler) answerQuestion(r *http.Request, ask func(*http.Request) (any, error)) (status int, body []byte) {
	err := h.withSlot(r, func() error {
		out, err := ask(r)
		if err == nil {
			body, err = json.Marshal(out)
		}
		return err
	})
	var told *failure
	switch {
	case err == nil:
		return http.StatusOK, append(body, '\n')
	case errors.As(err, &told):
	default:
		h.Log.ErrorContext(r.Context(), "A question could not be answered", "path", r.URL.Path, "error", err)
		told = &failure{http.StatusInternalServerError, "the ledger cannot be read: its log says why"}
	}
	body, _ = json.Marshal(ledger.Failure{Error: told.text}) // a text
	return told.status, append(body, '\n')
}

func writeReply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller is gone
}

// withSlot runs a function in a slot. A user gets at most one slot.
func (h *handler) withSlot(r *http.Request, do func() error) error {
	who, ok := request.UserFrom(r.Context())
	if !ok {
		return &failure{http.StatusUnauthorized, "it is not known who asks"}
	}
	if !h.acquireUser(who) {
		return &failure{http.StatusTooManyRequests, "another question of yours is being answered: ask again when it is"}
	}
	defer h.releaseUser(who)
	ctx, cancel := context.WithTimeout(r.Context(), slotTimeout)
	defer cancel()
	if err := h.slots.Acquire(ctx, 1); err != nil {
		return &failure{http.StatusServiceUnavailable, "too many ask at this time: try again later"}
	}
	defer h.slots.Release(1)
	return do()
}

func (h *handler) acquireUser(who user.Info) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busyUsers[who.GetName()] {
		return false
	}
	h.busyUsers[who.GetName()] = true
	return true
}

func (h *handler) releaseUser(who user.Info) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.busyUsers, who.GetName())
}

// parseWindow parses the time range of a query.
func (h *handler) parseWindow(query url.Values) (from, to time.Time, err error) {
	to = h.Now()
	if text := query.Get("until"); text != "" {
		if to, err = time.Parse(time.RFC3339, text); err != nil {
			return from, to, badRequest("until is no time such as 2026-11-01T12:00:00Z")
		}
	}
	if now := h.Now(); to.After(now) {
		to = now // nothing is held after now
	}
	from = to.Add(-defaultSince)
	if text := query.Get("since"); text != "" {
		if from, err = time.Parse(time.RFC3339, text); err != nil {
			return from, to, badRequest("since is no time such as 2026-11-01T12:00:00Z")
		}
	}
	if !from.Before(to) {
		return from, to, badRequest("since must be before until, and before now")
	}
	if epoch := time.Unix(0, 0); from.Before(epoch) {
		from = epoch
	}
	return from, to, nil
}

func (h *handler) getUsage(r *http.Request) (any, error) {
	query := r.URL.Query()
	by := query.Get("by")
	if by == "" {
		by = string(ledger.ByNamespace)
	}
	keys, err := ledger.ParseKeys(by)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	from, to, err := h.parseWindow(query)
	if err != nil {
		return nil, err
	}
	namespaces, err := h.Gate.readableNamespaces(r, query["namespace"], list)
	if err != nil {
		return nil, err
	}
	return h.sumUsage(store.UsageQuery{
		By: keys, From: from, To: to, Namespaces: namespaces, User: query.Get("user"), Pool: query.Get("pool"), Most: maxItems,
		Follows: h.Pods,
	})
}

func (h *handler) listJobs(r *http.Request) (any, error) {
	query := r.URL.Query()
	from, to, err := h.parseWindow(query)
	if err != nil {
		return nil, err
	}
	most, err := parseLimit(query)
	if err != nil {
		return nil, err
	}
	namespaces, err := h.Gate.readableNamespaces(r, query["namespace"], list)
	if err != nil {
		return nil, err
	}
	jobs, more, err := h.Store.FinishedJobs(store.JobQuery{
		Namespaces: namespaces, Name: query.Get("name"), User: query.Get("user"), Pool: query.Get("pool"), From: from, To: to, Most: most,
		MostBytes: maxAnswer,
	})
	return listOf(jobs, more, err)
}

// parseLimit parses the number of items.
func parseLimit(query url.Values) (int, error) {
	text := query.Get("limit")
	if text == "" {
		return defaultItems, nil
	}
	most, err := strconv.Atoi(text)
	if err != nil || most < 1 || most > maxItems {
		return 0, badRequest("limit is no number from 1 to " + strconv.Itoa(maxItems))
	}
	return most, nil
}

func (h *handler) listRuns(r *http.Request) (any, error) {
	query := r.URL.Query()
	from, to, err := h.parseWindow(query)
	if err != nil {
		return nil, err
	}
	most, err := parseLimit(query)
	if err != nil {
		return nil, err
	}
	namespaces, err := h.Gate.readableNamespaces(r, query["namespace"], list)
	if err != nil {
		return nil, err
	}
	runs, more, err := h.Store.Runs(store.RunQuery{Namespaces: namespaces, From: from, To: to, Most: most})
	return listOf(runs, more, err)
}

func (h *handler) getJob(r *http.Request) (any, error) {
	reach, err := h.Gate.readableNamespaces(r, []string{r.PathValue("namespace")}, list)
	if err != nil {
		return nil, err
	}
	job, holdings, err := h.Store.Job(reach[0], r.PathValue("uid"))
	if err == nil && job == nil {
		err = &failure{http.StatusNotFound, "the ledger knows no such job"}
	}
	if err != nil {
		return nil, err
	}
	held, more, err := fitItems(holdings)
	return detail{Job: job, Holdings: held, More: more}, err
}

// maxOutput bounds the output in one answer, in bytes.
const maxOutput = 16 << 20

func (h *handler) getOutput(r *http.Request) (any, error) {
	reach, err := h.Gate.readableNamespaces(r, []string{r.PathValue("namespace")}, logs)
	if err != nil {
		return nil, err
	}
	job := r.PathValue("job")
	if len(validation.IsValidLabelValue(job)) > 0 { // the label that pods have for their job
		return nil, badRequest(fmt.Sprintf("%.70q is no name of a job", job))
	}
	query := r.URL.Query()
	items, more, err := h.Store.Outputs(store.OutputQuery{
		Namespace: reach[0], Job: job, Pod: query.Get("pod"), Container: query.Get("container"), Most: maxOutput,
	})
	return listOf(items, more, err)
}

// podRight is a right to the pods of a namespace in the cluster.
type podRight struct{ verb, subresource, words string }

var (
	// list gives access to holdings: a caller that may list pods sees them anyway.
	list = podRight{verb: "list", words: "list the pods"}
	logs = podRight{verb: "get", subresource: "log", words: "get the output of pods"}
)

func (a podRight) attributesFor(who user.Info, namespace string) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: who, Verb: a.verb, Namespace: namespace, APIVersion: "v1", Resource: "pods", Subresource: a.subresource, ResourceRequest: true,
	}
}
