package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/drain"
	"g8s.host/gpu-scheduler/pkg/fair"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/joblogs"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/server/access"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/timelimit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Failure is the body of every error answer.
type Failure struct {
	Message string   `json:"error" doc:"What went wrong, and what to do about it, for people"`
	Code    string   `json:"code" doc:"What went wrong, in one word, for programs" example:"NotFound"`
	Details []Detail `json:"details,omitempty" doc:"Each problem of the request, with its place"`
	// Unseen is set with the code UnseenJob.
	Unseen    *UnseenJob `json:"unseen,omitempty" doc:"With the code UnseenJob: the Job that would be made"`
	RequestID string     `json:"requestId" doc:"The same as the header X-Request-Id, and in the server's log"`
	status    int
}

// UnseenJob is a Job that the server creates only after the caller has seen it.
type UnseenJob struct {
	Digest  string         `json:"digest" doc:"Names exactly this Job: send the request again with it to have the Job made"`
	Lease   string         `json:"lease" doc:"The Lease that has the Job. Who may write Leases in the namespace may have put it there"`
	Kept    time.Time      `json:"kept" doc:"Since when the Lease is there"`
	Changed *time.Time     `json:"changed,omitempty" doc:"When somebody has written to the Lease since, as gpuctl never does"`
	Job     map[string]any `json:"job" doc:"The Job, as it would be made"`
}

// Detail is one problem of a request.
type Detail struct {
	Message string `json:"message"`
	// Location names a parameter or a field of the body, such as query.page.
	Location string `json:"location,omitempty" doc:"The parameter or the field of the body" example:"query.page"`
	// Line and the fields below locate the problem in a YAML document, as gpuctl shows it.
	Line     int    `json:"line,omitempty" doc:"The line of the YAML, from 1"`
	Column   int    `json:"column,omitempty" doc:"The column of the YAML, in characters, from 1"`
	Severity string `json:"severity,omitempty" enum:"error,warning"`
	Source   string `json:"source,omitempty" doc:"The text of the line, or the beginning of a long one"`
}

// Error returns the message, so that Failure implements error.
func (f *Failure) Error() string { return f.Message }

// GetStatus returns the HTTP status to huma.
func (f *Failure) GetStatus() int { return f.status }

// useFailures makes huma use [Failure] for the requests that it rejects itself. The library has one error format per process.
var useFailures = sync.OnceFunc(func() {
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		f := newFailure(status, message, errs...)
		f.RequestID = requestID(ctx.Context())
		return f
	}
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return newFailure(status, message, errs...)
	}
})

func newFailure(status int, message string, errs ...error) *Failure {
	f := &Failure{Message: message, Code: codeOf(status), status: status}
	for _, err := range errs {
		var located huma.ErrorDetailer
		if errors.As(err, &located) {
			detail := located.ErrorDetail()
			f.Details = append(f.Details, Detail{Message: detail.Message, Location: detail.Location})
		} else if err != nil {
			f.Details = append(f.Details, Detail{Message: err.Error()})
		}
	}
	if len(f.Details) == 1 {
		f.Message = fmt.Sprintf("%s: %s", f.Message, f.Details[0].Message)
	}
	return f
}

// codes are the default codes by status, for errors without a more specific code.
var codes = map[int]string{
	http.StatusBadRequest: "BadRequest", http.StatusUnauthorized: "Unauthorized", http.StatusForbidden: "Forbidden",
	http.StatusNotFound: "NotFound", http.StatusMethodNotAllowed: "MethodNotAllowed", http.StatusConflict: "Conflict",
	http.StatusPreconditionFailed:    "PreconditionFailed",
	http.StatusRequestEntityTooLarge: "TooLarge", http.StatusUnsupportedMediaType: "UnsupportedMediaType",
	http.StatusNotAcceptable: "NotAcceptable", http.StatusUpgradeRequired: "UpgradeRequired", http.StatusUnprocessableEntity: "Invalid",
	http.StatusTooManyRequests: "TooManyRequests", http.StatusServiceUnavailable: "Unavailable",
	http.StatusGatewayTimeout: "Timeout", http.StatusBadGateway: "BadGateway", http.StatusRequestTimeout: "Timeout",
}

func codeOf(status int) string {
	if code, ok := codes[status]; ok {
		return code
	}
	return "InternalError"
}

// unavailableError is the reason why the server cannot answer now.
type unavailableError struct{ text string }

func (e *unavailableError) Error() string { return e.text }

// refusal is a request error with its own status.
type refusal struct {
	status  int
	code    string
	text    string
	details []Detail
}

func (e *refusal) Error() string { return e.text }

func invalidErrorf(format string, args ...any) error {
	return &refusal{status: http.StatusUnprocessableEntity, code: "Invalid", text: fmt.Sprintf(format, args...)}
}

func notFoundErrorf(format string, args ...any) error {
	return &refusal{status: http.StatusNotFound, code: "NotFound", text: fmt.Sprintf(format, args...)}
}

func conflictErrorf(code, format string, args ...any) error {
	return &refusal{status: http.StatusConflict, code: code, text: fmt.Sprintf(format, args...)}
}

// failureFromError converts a handler's error to the answer for the client.
func failureFromError(ctx context.Context, err error) *Failure {
	status, code := classifyError(err)
	says := phrase.FromError(err).Localize(languageFrom(ctx))
	f := &Failure{Message: says, Code: code, RequestID: requestID(ctx), status: status}
	var refused *refusal
	if errors.As(err, &refused) {
		f.Details = refused.details
	}
	var held *drain.HeldError
	if errors.As(err, &held) {
		for _, hold := range held.Holds {
			f.Details = append(f.Details, Detail{Message: hold.String(), Location: "pods." + hold.Pod.String()})
		}
	}
	var broken *submit.ConstraintError
	if errors.As(err, &broken) {
		for _, node := range broken.Nodes {
			for _, violation := range node.Violations {
				f.Details = append(f.Details, Detail{Message: violation.Text, Location: "nodes." + node.Node + "." + violation.Constraint})
			}
		}
	}
	var immutable *submit.ImmutableError
	if errors.As(err, &immutable) {
		f.Message = says + "; set replace to recreate the job"
		f.Details = []Detail{{Message: immutable.Diff, Location: "diff"}}
	}
	var unseen *submit.UnseenJobError
	if errors.As(err, &unseen) {
		f.Message = says + "; look at the Job, and send the request again with the digest of it"
		f.Unseen = unseenJob(unseen.Replacement)
	}
	if policy, said, ok := submit.PolicyRefusal(err); ok {
		f.Message = said + " (policy " + policy + ")"
	}
	if status == http.StatusInternalServerError {
		f.Message = "an internal error; the server's log has it under this requestId"
	}
	return f
}

func unseenJob(r submit.Replacement) *UnseenJob {
	out := &UnseenJob{Digest: r.Digest, Lease: r.Lease, Kept: r.Kept, Job: r.Object}
	if !r.Changed.IsZero() {
		out.Changed = &r.Changed
	}
	return out
}

// classifyError maps an error to a status and a code, for all routes.
func classifyError(err error) (status int, code string) {
	var refused *refusal
	var status503 *unavailableError
	var api apierrors.APIStatus
	var network net.Error
	switch {
	case errors.As(err, &refused):
		return refused.status, refused.code
	case errors.As(err, new(*fair.FullError)):
		return http.StatusTooManyRequests, "TooManyRequests"
	case errors.As(err, new(*access.DeniedError)), errors.As(err, new(*access.ActingError)):
		return http.StatusForbidden, "Forbidden"
	case errors.As(err, new(*submit.ForeignNamespaceError)), errors.As(err, new(*submit.ForeignJobError)),
		errors.As(err, new(*inventory.ForeignError)):
		return http.StatusForbidden, "NotManaged"
	case errors.As(err, new(*submit.QuotaError)):
		return http.StatusForbidden, "Forbidden"
	case errors.As(err, &status503):
		return http.StatusServiceUnavailable, "Unavailable"
	case isAbsent(err):
		return http.StatusNotFound, "NotFound"
	case isConflict(err):
		return http.StatusConflict, conflictCode(err)
	case isInvalid(err):
		return http.StatusUnprocessableEntity, "Invalid"
	case errors.As(err, &api):
		return classifyAPI(api.Status())
	case errors.As(err, &network):
		return http.StatusServiceUnavailable, "Unavailable"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.As(err, new(*timelimit.Error)):
		return http.StatusGatewayTimeout, "Timeout"
	}
	return http.StatusInternalServerError, "InternalError"
}

func isAbsent(err error) bool {
	return errors.As(err, new(*submit.MissingNodesError)) ||
		errors.As(err, new(*inventory.NotFoundError)) || errors.As(err, new(*submit.NamespaceNotFoundError)) ||
		errors.As(err, new(*submit.ReservationNotFoundError)) ||
		apierrors.IsNotFound(err)
}

func isInvalid(err error) bool {
	return errors.As(err, new(*joblogs.SelectionError)) || errors.As(err, new(*joblogs.TooManyError)) ||
		errors.As(err, new(*submit.NoReplicasError)) || errors.As(err, new(*submit.UnknownPoolError))
}

func isConflict(err error) bool {
	return drainConflict(err) != "" || conflictCode(err) != anyConflict || errors.As(err, new(*submit.ChangedError)) ||
		errors.As(err, new(*submit.ForeignQuotaError)) || apierrors.IsConflict(err)
}

// anyConflict is the code of a conflict without a more specific one.
const anyConflict = "Conflict"

func conflictCode(err error) string {
	if code := drainConflict(err); code != "" {
		return code
	}
	switch {
	case errors.As(err, new(*submit.ExistsError)), errors.As(err, new(*submit.PoolExistsError)), errors.As(err, new(*submit.ReservationExistsError)), apierrors.IsAlreadyExists(err):
		return "AlreadyExists"
	case errors.As(err, new(*submit.ForeignNodesError)):
		return "NodesInOtherPools"
	case errors.As(err, new(*submit.ConstraintError)):
		return "PoolConstraints"
	case errors.As(err, new(*jobplan.StateError)), errors.As(err, new(*submit.RunningError)), errors.As(err, new(*submit.NoSourceError)), errors.As(err, new(*submit.OtherJobsSourceError)):
		return "WrongState"
	case errors.As(err, new(*submit.TakenError)):
		return "LabelConflict"
	case errors.As(err, new(*submit.ImmutableError)):
		return "Immutable"
	case errors.As(err, new(*diagnosis.OtherSchedulerError)):
		return "OtherScheduler"
	case errors.As(err, new(*submit.UnseenJobError)):
		return "UnseenJob"
	case errors.As(err, new(*submit.MisplacedJobError)):
		return "MisplacedJob"
	case errors.As(err, new(*submit.AmbiguousError)), errors.As(err, new(*inventory.AmbiguousError)):
		return "Ambiguous"
	}
	return anyConflict
}

// classifyAPI passes on the status of the API server. An unreachable API server, or one that rejects this server itself, is not the client's error.
func classifyAPI(status metav1.Status) (int, string) {
	switch code := int(status.Code); code {
	case http.StatusUnauthorized, 0:
		return http.StatusBadGateway, "BadGateway"
	case http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests,
		http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout, http.StatusBadRequest:
		return code, codeOf(code)
	}
	return http.StatusInternalServerError, "InternalError"
}

// diagnosticDetails converts the diagnostics of a YAML document to details.
func diagnosticDetails(diagnostics workload.Diagnostics) []Detail {
	out := make([]Detail, len(diagnostics))
	for i, d := range diagnostics {
		out[i] = Detail{
			Message: d.Message, Line: d.Line, Column: d.Column, Severity: string(d.Severity), Source: clipSource(d.Source),
		}
	}
	return out
}

// maxSource bounds the source text in a detail. A line may be as long as the document, and each of its problems has a detail.
const maxSource = 400

func clipSource(line string) string {
	if len(line) <= maxSource {
		return line
	}
	return strings.ToValidUTF8(line[:maxSource], "") + "…"
}
