package cli

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/joblogs"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// hints are what to do next, by the kind of error; the first that fits is added.
var hints = []struct {
	is   func(error) bool
	hint func(error) string
}{
	{isA[*submit.ExistsError], hintExists},
	{isA[*joblogs.TooManyError], always("Choose one with --rank or --pod, or raise --max-streams")},
	{isA[*submit.ImmutableError], hintImmutable},
	{isFieldConflict, always("--force-conflicts takes these fields over")},
	{isQuota, always("See what is left: gpuctl get quotas")},
	{isA[*submit.PodsRefusedError], always("Change the job as the message says, or ask the administrators of the cluster")},
	{isA[*submit.ForeignNodesError], hintForeign},
	{isA[*submit.TakenError], always("Nothing was changed. --overwrite changes labels that are there")},
	{isRefusedByPolicy, hintPolicy},
	{isUntrusted, always("The API server was reached, but its certificate or yours is not accepted: check the server's address,\n" +
		"certificate-authority and the client certificate in this kubeconfig")},
	{isPlugin, always("The program that this kubeconfig gets credentials from (users, exec) has failed: log in again, or mend it")},
	{isPlaintext, always("The API server speaks TLS: write https:// in the server of this kubeconfig")},
	{isA[*url.Error], hintUnreachable},
	{apierrors.IsForbidden, always("Ask the administrators of the cluster for this right, or choose another --context or --namespace")},
	{apierrors.IsUnauthorized, always("The credentials of this kubeconfig are not accepted: log in again")},
}

// message is the text of an error, with what to do next where the error itself does not know it.
func message(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	text := err.Error()
	if _, said, ok := submit.PolicyRefusal(err); ok {
		text = said
	}
	var request *url.Error
	if errors.As(err, &request) {
		text = strings.ReplaceAll(text, request.Error(), request.Err.Error())
	}
	for _, known := range hints {
		if !known.is(err) {
			continue
		}
		if hint := known.hint(err); hint != "" {
			text += "\n" + hint
		}
		break
	}
	return text
}

// always is a hint that does not depend on the error.
func always(hint string) func(error) string { return func(error) string { return hint } }

func hintExists(err error) string {
	var exists *submit.ExistsError
	if !errors.As(err, &exists) || exists.Name == "" {
		return ""
	}
	return "Choose another name, change that job with gpuctl apply, or delete it first: gpuctl delete " + exists.Name + " -n " + exists.Namespace
}

func hintImmutable(err error) string {
	var immutable *submit.ImmutableError
	if errors.As(err, &immutable) && immutable.Replaceable {
		return "The change is shown above. --replace makes the job anew with it; it then starts over"
	}
	return "The change is shown above. Delete the job, and create it anew"
}

// isRefusedByPolicy says whether a policy of the cluster refused what was to be written. It tells itself what to do.
func isRefusedByPolicy(err error) bool {
	_, _, ok := submit.PolicyRefusal(err)
	return ok
}

func hintPolicy(err error) string {
	policy, _, _ := submit.PolicyRefusal(err)
	return "It is the policy " + policy + " of the cluster that refuses this"
}

func hintForeign(err error) string {
	var foreign *submit.ForeignNodesError
	if errors.As(err, &foreign) && foreign.Leaving {
		return "Nothing was changed"
	}
	return "Nothing was changed. --force moves the nodes"
}

func hintUnreachable(err error) string {
	var request *url.Error
	if !errors.As(err, &request) {
		return ""
	}
	return "Is the cluster of this kubeconfig up? Its API server is " + serverOf(request.URL)
}

// isPlugin says whether the program of the kubeconfig that gets credentials failed. client-go has no type for that.
func isPlugin(err error) bool { return strings.Contains(err.Error(), "getting credentials: ") }

// isPlaintext says whether a server that speaks TLS was spoken to without. Go's says so in the body of its answer.
func isPlaintext(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return strings.Contains(cause.Message, "HTTP request to an HTTPS server")
	})
}

// isFieldConflict says whether another program set a field that is to be set.
func isFieldConflict(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

func serverOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return address
	}
	return parsed.Scheme + "://" + parsed.Host
}
