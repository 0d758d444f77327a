package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/joblogs"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// Exit codes. They are documented in the help of the root command.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitForbidden   = 5
	exitTimeout     = 8
	exitUnreachable = 9
	exitJobFailed   = 100
	exitNotFinished = 101
	exitInterrupted = 130
)

const exitCodeHelp = `Exit codes:
  0 success   1 failure   2 usage or invalid YAML   3 not found   4 conflict or already exists
  5 forbidden or not logged in   8 timeout   9 API server unreachable
  100 the job failed   101 the job has not finished   130 interrupted`

// usageError is an error in what the user typed or wrote.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// notFoundError says that something the user named is not there.
type notFoundError struct{ what string }

func (e *notFoundError) Error() string { return e.what + " not found" }

// conflictError says that what is there stands against what was asked.
type conflictError struct{ what string }

func (e *conflictError) Error() string { return e.what }

// outcomeError is what has come of a job, or of a command in one of its pods, which decides the exit code.
type outcomeError struct {
	code int
	text string
}

func (e *outcomeError) Error() string { return e.text }

// timeoutError says that what a command waited for did not come in time.
type timeoutError struct{ what string }

func (e *timeoutError) Error() string { return e.what }

// quietError is an error whose text the command has printed already.
type quietError struct{ err error }

func (e *quietError) Error() string { return e.err.Error() }
func (e *quietError) Unwrap() error { return e.err }

// errNoCluster says that no kubeconfig names a cluster.
var errNoCluster = errors.New("no cluster is configured: " +
	"set KUBECONFIG or give --kubeconfig FILE (a sandbox prints its own: gpu-sandbox kubeconfig)")

// exitCode decides the exit code of an error, for all commands.
func exitCode(err error) int {
	var outcome *outcomeError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &outcome):
		return outcome.code
	case errors.As(err, new(*timeoutError)):
		return exitTimeout
	case isUsage(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case isNotFound(err):
		return exitNotFound
	case isConflict(err):
		return exitConflict
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return exitForbidden
	case isUnreachable(err):
		return exitUnreachable
	}
	return exitFailure
}

func isUsage(err error) bool {
	return errors.As(err, new(*usageError)) || errors.As(err, new(*joblogs.SelectionError)) ||
		errors.As(err, new(*joblogs.TooManyError))
}

func isNotFound(err error) bool {
	return errors.As(err, new(*notFoundError)) || errors.As(err, new(*inventory.NotFoundError)) || errors.As(err, new(*submit.NotFoundError)) ||
		errors.As(err, new(*submit.MissingNodesError)) || apierrors.IsNotFound(err)
}

func isConflict(err error) bool {
	return errors.As(err, new(*conflictError)) || errors.As(err, new(*submit.ExistsError)) ||
		errors.As(err, new(*submit.ForeignNodesError)) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err)
}

func isUnreachable(err error) bool {
	var network net.Error
	return errors.Is(err, errNoCluster) || clientcmd.IsEmptyConfig(err) || errors.As(err, &network) ||
		errors.Is(err, context.DeadlineExceeded) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err)
}

// message is the text of an error, with what to do next where the error itself does not know it.
func message(err error) string {
	text := err.Error()
	var request *url.Error
	var exists *submit.ExistsError
	switch {
	case errors.As(err, &exists) && exists.Name != "":
		text += "\nChoose another name, or delete that job first: gpuctl delete " + exists.Name + " -n " + exists.Namespace
	case errors.As(err, new(*joblogs.TooManyError)):
		text += "\nChoose one with --rank or --pod, or raise --max-streams"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.As(err, new(*submit.ForeignNodesError)):
		text += "\nNothing was changed. --force moves the nodes"
	case errors.As(err, &request):
		text = strings.ReplaceAll(text, request.Error(), request.Err.Error())
		text += "\nIs the cluster of this kubeconfig up? Its API server is " + serverOf(request.URL)
	case apierrors.IsForbidden(err):
		text += "\nAsk the administrators of the cluster for this right, or choose another --context or --namespace"
	case apierrors.IsUnauthorized(err):
		text += "\nThe credentials of this kubeconfig are not accepted: log in again"
	}
	return text
}

func serverOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return address
	}
	return parsed.Scheme + "://" + parsed.Host
}
