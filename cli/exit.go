package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/drain"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/joblogs"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/timelimit"
)

// Exit codes. They are documented in the help of the root command.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitForbidden   = 5
	exitQuota       = 6
	exitCannotFit   = 7
	exitTimeout     = 8
	exitUnreachable = 9
	exitJobFailed   = 100
	exitNotFinished = 101
	exitCancelled   = 103
	exitInterrupted = 130
)

const exitCodeHelp = `Exit codes:
  0 success   1 failure   2 usage or invalid YAML   3 not found   4 conflict or already exists
  5 forbidden or not logged in   6 quota exceeded   7 no node can ever hold the job   8 timeout
  9 API server unreachable   100 the job failed   101 the job has not finished
  103 the job was cancelled   130 interrupted`

// usageError is an error in what the user typed or wrote.
type usageError struct{ err error }

func (e *usageError) Error() string        { return e.err.Error() }
func (e *usageError) Message() phrase.Text { return phrase.FromError(e.err) }
func (e *usageError) Unwrap() error        { return e.err }

func usageErrorf(format string, args ...any) error {
	return &usageError{phrase.Errorf(format, args...)}
}

// notFoundError says that something the user named does not exist.
type notFoundError struct {
	what phrase.Text
	// near is a line that suggests a similar name, if there is one.
	near phrase.Text
}

func (e *notFoundError) Error() string { return e.Message().String() }
func (e *notFoundError) Message() phrase.Text {
	return phrase.Textf("%s not found", e.what).Add(e.near)
}

// conflictError says that the current state conflicts with the request.
type conflictError struct{ what phrase.Text }

func (e *conflictError) Error() string        { return e.what.String() }
func (e *conflictError) Message() phrase.Text { return e.what }

// cannotFitError says that no node of the cluster can ever hold a job.
type cannotFitError struct{ what phrase.Text }

func (e *cannotFitError) Error() string        { return e.what.String() }
func (e *cannotFitError) Message() phrase.Text { return e.what }

// overQuotaError says that a quota would never admit a job.
type overQuotaError struct{ what phrase.Text }

func (e *overQuotaError) Error() string        { return e.what.String() }
func (e *overQuotaError) Message() phrase.Text { return e.what }

// outcomeError is the outcome of a job, or of a command in one of its pods. It decides the exit code.
type outcomeError struct {
	code int
	text phrase.Text
}

func (e *outcomeError) Error() string        { return e.text.String() }
func (e *outcomeError) Message() phrase.Text { return e.text }

// connectionLostError says that the connection to a job ended while the job may still run.
type connectionLostError struct {
	namespace, job string
	cause          error
}

func (e *connectionLostError) Error() string { return e.Message().String() }

func (e *connectionLostError) Message() phrase.Text {
	text := phrase.Textf("the connection to job %s was lost", e.job)
	if e.cause != nil {
		text = text.Addf(": %s", e.cause)
	}
	return text.Addf("\nThe job goes on. Come back to it: gpuctl attach %[1]s -n %[2]s\nEnd it: gpuctl delete job %[1]s -n %[2]s", e.job, e.namespace)
}

// quietError is an error whose text the command has already printed.
type quietError struct{ err error }

func (e *quietError) Error() string { return e.err.Error() }
func (e *quietError) Unwrap() error { return e.err }

// errNoCluster says that no kubeconfig names a cluster.
var errNoCluster = phrase.Errorf("no cluster is configured: " +
	"set KUBECONFIG or give --kubeconfig FILE (a sandbox prints its own: gpu-sandbox kubeconfig)")

// noConfigError says that the file named by KUBECONFIG does not exist.
type noConfigError struct{ file string }

func (e *noConfigError) Error() string { return e.Message().String() }

func (e *noConfigError) Message() phrase.Text {
	return phrase.Textf("KUBECONFIG names %s, which is not there: correct it, or give --kubeconfig FILE "+
		"(a sandbox prints its own: gpu-sandbox kubeconfig)", e.file)
}

// exitCodes are the kinds of errors with their exit codes, in the order in which they are matched.
var exitCodes = []struct {
	code int
	is   func(error) bool
}{
	{exitTimeout, func(err error) bool { return isA[*timelimit.Error](err) }},
	{exitNotFinished, isA[*connectionLostError]},
	{exitUsage, isUsage},
	{exitInterrupted, func(err error) bool { return errors.Is(err, context.Canceled) }},
	{exitNotFound, isNotFound},
	{exitConflict, isConflict},
	{exitQuota, isQuota},
	{exitCannotFit, isA[*cannotFitError]},
	{exitForbidden, func(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }},
	{exitForbidden, isCredentialFailure},
	{exitForbidden, isLedgerRefusal},
	{exitUsage, isLedgerUsage},
	{exitFailure, isUntrusted},
	{exitUnreachable, isUnreachable},
}

// exitCode returns the exit code of an error, for all commands.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	var outcome *outcomeError
	if errors.As(err, &outcome) {
		return outcome.code
	}
	code := exitFailure
	for _, kind := range exitCodes {
		if kind.is(err) {
			code = kind.code
			break
		}
	}
	if code == exitFailure && isA[*diffError](err) {
		return exitUsage // 1 means that diff found a difference
	}
	return code
}

// isA reports whether an error is, or wraps, one of type E.
func isA[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

func isUsage(err error) bool {
	return isA[*usageError](err) || isA[*joblogs.SelectionError](err) || isA[*joblogs.TooManyError](err) ||
		isA[*submit.AmbiguousError](err) || isA[*submit.NoReplicasError](err) || isA[*submit.RenamedError](err) || isA[*jobplan.PresetError](err) || apierrors.IsInvalid(err) && !isA[*submit.ImmutableError](err) ||
		apierrors.IsBadRequest(err)
}

func isNotFound(err error) bool {
	return isA[*notFoundError](err) || isA[*inventory.NotFoundError](err) || isA[*submit.MissingNodesError](err) ||
		isA[*submit.QuotaNotFoundError](err) || isA[*submit.ReservationNotFoundError](err) || isA[*submit.NamespaceNotFoundError](err) ||
		isA[*submit.UnknownPoolError](err) || apierrors.IsNotFound(err)
}

func isConflict(err error) bool {
	return isForeign(err) || isAlreadyExists(err) || isSourceMissing(err) || isA[*conflictError](err) || isA[*diagnosis.OtherSchedulerError](err) || isA[*submit.ImmutableError](err) ||
		isA[*submit.TakenError](err) || isA[*submit.RunningError](err) ||
		isA[*submit.DoneTasksError](err) || isA[*submit.ChangedError](err) ||
		isA[*jobplan.StateError](err) || apierrors.IsConflict(err)
}

// isSourceMissing reports whether it is unknown what a job is to become: its stored YAML is missing, belongs to another job, or is unseen.
func isSourceMissing(err error) bool {
	return isA[*submit.NoSourceError](err) || isA[*submit.OtherJobsSourceError](err) || isA[*submit.UnseenJobError](err) ||
		isA[*submit.MisplacedJobError](err)
}

// isAlreadyExists reports whether an object to create already exists.
func isAlreadyExists(err error) bool {
	return isA[*submit.ExistsError](err) || isA[*submit.PoolExistsError](err) || isA[*submit.ReservationExistsError](err) ||
		apierrors.IsAlreadyExists(err)
}

// isForeign reports whether gpuctl does not own an object, or a node is not in the required state.
func isForeign(err error) bool {
	return isA[*submit.ForeignNodesError](err) || isA[*submit.ForeignQuotaError](err) || isA[*submit.ForeignNamespaceError](err) ||
		isA[*submit.ForeignJobError](err) || isA[*submit.ConstraintError](err) || isA[*drain.HeldError](err) || isA[*drain.NotWellError](err)
}

// isQuota reports whether a quota refused an object, which the API server answers with Forbidden.
func isQuota(err error) bool {
	return isA[*overQuotaError](err) || isA[*submit.QuotaError](err) || apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// isUntrusted reports whether the API server was reached but is not the one that the kubeconfig means.
func isUntrusted(err error) bool {
	return isA[*tls.CertificateVerificationError](err) || isA[x509.UnknownAuthorityError](err) ||
		isA[x509.HostnameError](err) || isA[x509.CertificateInvalidError](err) || isA[tls.RecordHeaderError](err) ||
		isA[tls.AlertError](err)
}

func isUnreachable(err error) bool {
	return errors.Is(err, errNoCluster) || isA[*noConfigError](err) || clientcmd.IsEmptyConfig(err) || isA[net.Error](err) ||
		errors.Is(err, context.DeadlineExceeded) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err)
}

// failures collects the errors of a command that does several independent things.
type failures struct {
	factory *Factory
	errs    []error
}

// addError records an error, nil for none. It returns whether to stop: the cluster does not answer, or the user has interrupted.
func (f *failures) addError(err error) (stop bool) {
	if err == nil {
		return false
	}
	f.errs = append(f.errs, err)
	code := exitCode(err)
	return code == exitUnreachable || code == exitInterrupted
}

func (f *failures) isEmpty() bool { return len(f.errs) == 0 }

// firstError returns the first error, which decides the exit code. If there are several, it prints each in full.
func (f *failures) firstError() error {
	switch len(f.errs) {
	case 0:
		return nil
	case 1:
		return f.errs[0]
	}
	for _, err := range f.errs {
		f.factory.printError(errorMessage(err))
	}
	return &quietError{f.errs[0]}
}

// jobOutcome returns nil for a job that has succeeded, else an error that describes its outcome.
func jobOutcome(job inventory.Job) error {
	switch job.Status {
	case inventory.StatusSucceeded:
		return nil
	case inventory.StatusFailed:
		return &outcomeError{code: exitJobFailed, text: phrase.Textf("job %s failed: %s", job.Name, reasonText(job.Trouble))}
	case inventory.StatusCancelled:
		return &outcomeError{code: exitCancelled, text: phrase.Textf("job %s was cancelled", job.Name)}
	case inventory.StatusTerminating:
		return &outcomeError{code: exitNotFinished, text: phrase.Textf("job %s was deleted", job.Name)}
	}
	return &outcomeError{code: exitNotFinished, text: phrase.Textf("job %s has not finished: it is %s", job.Name, job.Status)}
}

// programOutcome is jobOutcome with the exit code of the job's program, if there is one.
func programOutcome(job inventory.Job) error {
	err := jobOutcome(job)
	if failure, ok := job.FirstFailure(); ok && job.Status == inventory.StatusFailed {
		return &outcomeError{code: int(failure.ExitCode), text: phrase.FromError(err)}
	}
	return err
}
