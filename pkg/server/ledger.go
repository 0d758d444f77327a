package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"g8s.host/gpu-scheduler/pkg/ledger"
	ledgerclient "g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/serving"
)

// LedgerQuery selects what to read from the ledger. Empty fields match anything.
type LedgerQuery struct {
	Namespaces []string  `query:"namespace,explode" maxItems:"200" doc:"Namespaces; all without it"`
	User       string    `query:"user" maxLength:"512" doc:"Only jobs of this user"`
	Pool       string    `query:"pool" maxLength:"63" doc:"Only jobs of this pool"`
	Since      time.Time `query:"since" doc:"From when on, as in RFC 3339; 30 days ago without it"`
	Until      time.Time `query:"until" doc:"Until when; now without it"`
}

func (q *LedgerQuery) clientQuery() ledgerclient.Query {
	return ledgerclient.Query{Namespaces: q.Namespaces, User: q.User, Pool: q.Pool, Since: q.Since, Until: q.Until}
}

type sumsInput struct {
	LedgerQuery
	By string `query:"by" maxLength:"100" default:"namespace" doc:"What to sum by, one or several with commas: job, user, namespace, pool, gpu-type, node"`
}

type finishedInput struct {
	LedgerQuery
	Name  string `query:"name" maxLength:"253" doc:"Only jobs of this name"`
	Limit int    `query:"limit" minimum:"1" maximum:"20000" default:"500" doc:"How many, the last to finish first"`
}

// GPUHours is GPU usage over a time range.
type GPUHours struct {
	From  time.Time    `json:"from"`
	To    time.Time    `json:"to"`
	Items []HoursSum   `json:"items" doc:"The most first"`
	Rest  *HoursSum    `json:"rest,omitempty" doc:"The sum of all that items are too many for"`
	Gaps  []ledger.Gap `json:"gaps" doc:"Times of which pods may be missing"`
	Begin *time.Time   `json:"begin,omitempty" doc:"When the ledger begins, if that is after from"`
}

// HoursSum is the usage under one combination of keys.
type HoursSum struct {
	Keys              map[string]string `json:"keys" doc:"The values that it was summed by; an empty one is not known"`
	GPUHours          float64           `json:"gpuHours" doc:"What was certainly held"`
	UncertainGPUHours float64           `json:"uncertainGpuHours" doc:"What may have been held beyond that: nobody saw when it ended"`
	Pods              int               `json:"pods"`
	Running           int               `json:"running" doc:"How many of the pods still hold it"`
	Efficiency        *Efficiency       `json:"efficiency,omitempty" doc:"How busy what was certainly held was; nothing where that is not measured"`
}

// Efficiency is the utilization of GPUs while they were held.
type Efficiency struct {
	Utilization *float64 `json:"utilizationPercent" doc:"The mean of what was measured; null where nothing was"`
	Measured    float64  `json:"measuredPercent" doc:"Of how much of the time for which GPUs were held it is the mean"`
}

// FinishedJob is a finished job, deleted or not.
type FinishedJob struct {
	UID       string     `json:"uid"`
	Namespace string     `json:"namespace"`
	JobID     string     `json:"jobId"`
	Kind      string     `json:"kind"`
	Status    string     `json:"status" doc:"Succeeded, Failed or Cancelled, or Deleted where it had not finished"`
	Reason    string     `json:"reason,omitempty"`
	Message   string     `json:"message,omitempty"`
	User      string     `json:"user,omitempty"`
	Pool      string     `json:"pool,omitempty"`
	Priority  string     `json:"priority,omitempty"`
	GPUs      int64      `json:"gpus"`
	GPUTypes  []string   `json:"gpuTypes"`
	Created   time.Time  `json:"created"`
	Finished  time.Time  `json:"finished"`
	Uncertain bool       `json:"uncertain,omitempty" doc:"Nobody saw it end: it had by then"`
	Deleted   *time.Time `json:"deleted,omitempty" doc:"When it was taken away, if it was"`

	Efficiency *Efficiency `json:"efficiency,omitempty" doc:"How busy the GPUs of its pods were; nothing where that is not measured"`
}

// FinishedJobs are finished jobs, the last to finish first.
type FinishedJobs struct {
	Items []FinishedJob `json:"items"`
	More  bool          `json:"more" doc:"There are more than were asked for"`
}

type sumsOutput struct{ Body GPUHours }

type finishedOutput struct{ Body FinishedJobs }

func (s *Server) ledgerRoutes() {
	const who = "Asks the ledger that the server is configured with, as you: it tells who may list the pods of a namespace about it, and " +
		"who may list all pods about all. 404 NotConfigured says that there is none."
	registerRoute(s, route{method: http.MethodGet, path: Root + "/usage", id: "getUsage", tag: "jobs",
		summary: "Who held how many GPU-hours", detail: who, fails: []int{http.StatusBadRequest, http.StatusNotFound}}, s.getSums)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/finished-jobs", id: "listFinishedJobs", tag: "jobs",
		summary: "Jobs that have finished, those that were deleted, too", detail: who, fails: []int{http.StatusBadRequest, http.StatusNotFound}}, s.listFinished)
}

func (s *Server) getSums(ctx context.Context, in *sumsInput) (*sumsOutput, error) {
	keys, err := ledger.ParseKeys(in.By)
	if err != nil {
		return nil, &refusal{status: http.StatusBadRequest, code: "BadRequest", text: "by: " + err.Error()}
	}
	query := in.clientQuery()
	query.By = keys
	usage, err := queryLedger(ctx, s, func(ctx context.Context, c *ledgerclient.Client) (ledger.Usage, error) { return c.Usage(ctx, query) })
	if err != nil {
		return nil, err
	}
	out := GPUHours{From: usage.From, To: usage.To, Items: make([]HoursSum, len(usage.Items)), Gaps: orEmpty(usage.Gaps), Begin: optionalTime(usage.Begin)}
	for i := range usage.Items {
		out.Items[i] = hoursSum(&usage.Items[i])
	}
	if usage.Rest != nil {
		rest := hoursSum(usage.Rest)
		out.Rest = &rest
	}
	return &sumsOutput{out}, nil
}

func hoursSum(sum *ledger.Sum) HoursSum {
	out := HoursSum{
		Keys: map[string]string{}, GPUHours: sum.GPUHours, UncertainGPUHours: sum.UncertainGPUHours, Pods: sum.Pods, Running: sum.Running,
		Efficiency: convertEfficiency(sum.Efficiency),
	}
	for key, value := range sum.Keys {
		out.Keys[string(key)] = value
	}
	return out
}

func convertEfficiency(of *ledger.Efficiency) *Efficiency {
	if of == nil {
		return nil
	}
	return &Efficiency{Utilization: of.Utilization, Measured: of.Measured}
}

func (s *Server) listFinished(ctx context.Context, in *finishedInput) (*finishedOutput, error) {
	query := in.clientQuery()
	query.Name, query.Limit = in.Name, in.Limit
	list, err := queryLedger(ctx, s, func(ctx context.Context, c *ledgerclient.Client) (out ledger.JobList, err error) {
		out.Items, out.More, err = c.Jobs(ctx, query)
		return out, err
	})
	if err != nil {
		return nil, err
	}
	out := &finishedOutput{FinishedJobs{Items: make([]FinishedJob, len(list.Items)), More: list.More}}
	for i := range list.Items {
		job := &list.Items[i]
		out.Body.Items[i] = FinishedJob{
			UID: job.UID, Namespace: job.Namespace, JobID: job.Name, Kind: job.Kind, Status: job.Status, Reason: job.Reason, Message: job.Message,
			User: job.User, Pool: job.Pool, Priority: job.Priority, GPUs: job.GPUs, GPUTypes: orEmpty(job.GPUTypes),
			Created: job.Created, Finished: job.Finished, Uncertain: job.Uncertain, Deleted: optionalTime(job.Deleted),
			Efficiency: convertEfficiency(job.Efficiency),
		}
	}
	return out, nil
}

// queryLedger queries the ledger with the caller's identity, in a slot of the caller.
func queryLedger[T any](ctx context.Context, s *Server, ask func(context.Context, *ledgerclient.Client) (T, error)) (out T, err error) {
	if s.options.Ledger.Address == "" {
		return out, &refusal{status: http.StatusNotFound, code: "NotConfigured",
			text: "no ledger is configured: start gpuctl-server with --ledger"}
	}
	caller, err := callerFrom(ctx)
	if err != nil {
		return out, err
	}
	leave, err := acquireSlot(ctx, s.budgets.ledger, 1)
	if err != nil {
		return out, err
	}
	serving.UntilSent(ctx, leave)
	client, err := ledgerclient.New(caller.Config, s.options.Ledger)
	if err != nil {
		return out, err
	}
	out, err = ask(ctx, client)
	var said *ledgerclient.Error
	switch {
	case errors.As(err, &said):
		return out, ledgerRefusal(said)
	case err != nil:
		s.options.Log.WarnContext(ctx, "The ledger does not answer", "requestId", requestID(ctx), "error", err)
		return out, &unavailableError{"the ledger does not answer: try again later"}
	}
	return out, nil
}

// ledgerRefusal converts an error of the ledger to the codes of this API.
func ledgerRefusal(said *ledgerclient.Error) error {
	codes := map[int]string{
		http.StatusBadRequest: "BadRequest", http.StatusForbidden: "Forbidden", http.StatusNotFound: "NotFound", http.StatusTooManyRequests: "TooManyRequests",
	}
	if code := codes[said.Status]; code != "" {
		return &refusal{status: said.Status, code: code, text: said.Text}
	}
	return &unavailableError{"the ledger cannot answer: try again later"}
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
