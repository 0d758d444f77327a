package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/drain"
	"g8s.host/gpu-scheduler/pkg/joblogs"
	ledgerclient "g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// hints suggest the next step, by the kind of error. The first match is added.
var hints = []struct {
	is   func(error) bool
	hint func(error) phrase.Text
}{
	{isA[*submit.ExistsError], hintExists},
	{isA[*joblogs.TooManyError], constantHint(phrase.Textf("Choose one with --index, --rank or --pod, or raise --max-streams"))},
	{isA[*submit.PoolExistsError], func(err error) phrase.Text {
		var exists *submit.PoolExistsError
		_ = errors.As(err, &exists)
		return phrase.Textf("gpuctl apply -f FILE makes it what a file says, gpuctl add node NODE --pool %s adds to it", exists.Pool)
	}},
	{isA[*submit.ImmutableError], hintImmutable},
	{isFieldConflict, constantHint(phrase.Textf("--force-conflicts takes these fields over"))},
	{isQuota, constantHint(phrase.Textf("See what is left: gpuctl get quotas"))},
	{isA[*submit.PodsRefusedError], constantHint(phrase.Textf("Change the job as the message says, or ask the administrators of the cluster"))},
	{isA[*submit.ForeignNodesError], hintForeign},
	{isA[*drain.HeldError], constantHint(phrase.Textf("Have their authors move them, or give --force to evict them all the same"))},
	{isA[*drain.NotWellError], hintNotWell},
	{isA[*submit.ConstraintError], func(err error) phrase.Text {
		var refused *submit.ConstraintError
		_ = errors.As(err, &refused)
		if refused.New {
			return phrase.Textf("The pool was not made, and nothing was changed. Correct the nodes, or the constraints in its file")
		}
		return phrase.Textf("Nothing was changed. Correct the nodes, or what the pool asks of them: gpuctl describe pool %s", refused.Pool)
	}},
	{isA[*submit.TakenError], constantHint(phrase.Textf("Nothing was changed. --overwrite changes labels that are there"))},
	{isRefusedByPolicy, hintPolicy},
	{isA[*ledgerclient.UnreachableError], hintNoLedger},
	{isUntrusted, constantHint(phrase.Textf("The API server was reached, but its certificate or yours is not accepted: check the server's address,\n" +
		"certificate-authority and the client certificate in this kubeconfig"))},
	{isCredentialFailure, constantHint(phrase.Textf("The program that this kubeconfig gets credentials from (users, exec) has failed: log in again, or mend it"))},
	{isPlaintext, constantHint(phrase.Textf("The API server speaks TLS: write https:// in the server of this kubeconfig"))},
	{isA[*url.Error], hintUnreachable},
	{isTerminatingNamespace, constantHint(phrase.Textf("Nothing can be created in a namespace that is being deleted: choose another one with --namespace"))},
	{apierrors.IsForbidden, constantHint(phrase.Textf("Ask the administrators of the cluster for this right, or choose another --context or --namespace"))},
	{apierrors.IsUnauthorized, constantHint(phrase.Textf("The credentials of this kubeconfig are not accepted: log in again"))},
}

// isTerminatingNamespace reports whether a namespace that is being deleted refused the request, which no right would change.
func isTerminatingNamespace(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// printError prints an error.
func (f *Factory) printError(text phrase.Text) {
	fmt.Fprintln(f.IO.ErrOut, phrase.Textf("error: %s", text).Localize(f.outputLanguage()))
}

// errorMessage describes an error, with the next step if the error itself does not name it.
func errorMessage(err error) phrase.Text {
	if errors.Is(err, context.Canceled) {
		return phrase.Textf("interrupted")
	}
	text := phrase.FromError(err)
	if _, said, ok := submit.PolicyRefusal(err); ok {
		text = phrase.Quote(said)
	}
	var request *url.Error
	if errors.As(err, &request) { // the request means nothing to people
		text = text.ReplaceQuoted(request.Error(), request.Err.Error())
	}
	for _, known := range hints {
		if !known.is(err) {
			continue
		}
		if hint := known.hint(err); len(hint) > 0 {
			text = text.Addf("\n%s", hint)
		}
		break
	}
	return text
}

// constantHint returns a hint that does not depend on the error.
func constantHint(hint phrase.Text) func(error) phrase.Text {
	return func(error) phrase.Text { return hint }
}

func hintExists(err error) phrase.Text {
	var exists *submit.ExistsError
	if !errors.As(err, &exists) || exists.Name == "" {
		return nil
	}
	return phrase.Textf("Choose another name, change that job with gpuctl apply, or delete it first: gpuctl delete %s -n %s", exists.Name, exists.Namespace)
}

func hintImmutable(err error) phrase.Text {
	var immutable *submit.ImmutableError
	if errors.As(err, &immutable) && immutable.Replaceable {
		return phrase.Textf("The change is shown above. --replace recreates the job with it; it then starts over")
	}
	return phrase.Textf("The change is shown above. Delete the job, and create it again")
}

// isRefusedByPolicy reports whether a policy of the cluster refused a write. The policy's message says what to do.
func isRefusedByPolicy(err error) bool {
	_, _, ok := submit.PolicyRefusal(err)
	return ok
}

func hintPolicy(err error) phrase.Text {
	policy, _, _ := submit.PolicyRefusal(err)
	return phrase.Textf("It is the policy %s of the cluster that refuses this", policy)
}

func hintForeign(err error) phrase.Text {
	var foreign *submit.ForeignNodesError
	if errors.As(err, &foreign) && foreign.Leaving {
		return phrase.Textf("Nothing was changed")
	}
	return phrase.Textf("Nothing was changed. --force moves the nodes")
}

func hintNotWell(err error) phrase.Text {
	var unwell *drain.NotWellError
	if errors.As(err, &unwell) && unwell.Ready {
		return phrase.Textf("Mend what it tells, or give --force to trust the node all the same")
	}
	return phrase.Textf("Bring the node back first: kubectl describe node %s", unwell.Node)
}

func hintUnreachable(err error) phrase.Text {
	var request *url.Error
	if !errors.As(err, &request) {
		return nil
	}
	return phrase.Textf("Is the cluster of this kubeconfig up? Its API server is %s", serverAddress(request.URL))
}

// hintNoLedger distinguishes the ledger from the API server: the cluster may be fine without it.
func hintNoLedger(err error) phrase.Text {
	var ledger *ledgerclient.UnreachableError
	switch {
	case !errors.As(err, &ledger):
		return nil
	case isUntrusted(err):
		return phrase.Textf("The ledger at %s was reached, but its certificate is not accepted: check --ledger-ca", ledger.Address)
	case isCredentialFailure(err):
		return phrase.Textf("The program that this kubeconfig gets credentials from (users, exec) has failed: log in again, or mend it")
	}
	return phrase.Textf("The ledger at %s does not answer; the cluster does without it. Is gpu-ledger up,\n"+
		"and is the address right? --ledger URL asks another", ledger.Address)
}

// isCredentialFailure reports whether the kubeconfig's credential program failed. client-go has no error type for that.
func isCredentialFailure(err error) bool {
	return strings.Contains(err.Error(), "getting credentials: ")
}

// isPlaintext reports whether plain HTTP was sent to a TLS server. Go's server says so in the body of its response.
func isPlaintext(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return strings.Contains(cause.Message, "HTTP request to an HTTPS server")
	})
}

// isFieldConflict reports whether another program owns a field to be set.
func isFieldConflict(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

func serverAddress(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return address
	}
	return parsed.Scheme + "://" + parsed.Host
}
