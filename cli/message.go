package cli

import (
	"errors"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/joblogs"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// message is the text of an error, with what to do next where the error itself does not know it.
func message(err error) string {
	text := err.Error()
	var request *url.Error
	var exists *submit.ExistsError
	switch {
	case errors.As(err, &exists) && exists.Name != "":
		text += "\nChoose another name, or delete that job first: gpuctl delete " + exists.Name + " -n " + exists.Namespace
	case isA[*joblogs.TooManyError](err):
		text += "\nChoose one with --rank or --pod, or raise --max-streams"
	case isA[*submit.ImmutableError](err):
		text += immutableHint(err)
	case apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict):
		text += "\n--force-conflicts takes these fields over"
	case isQuota(err):
		text += "\nSee what is left: gpuctl get quotas"
	case errors.As(err, new(*submit.ForeignNodesError)):
		text += "\nNothing was changed. --force moves the nodes"
	case isUntrusted(err):
		text += "\nThe API server was reached, but its certificate or yours is not accepted: check the server's address,\n" +
			"certificate-authority and the client certificate in this kubeconfig"
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

func immutableHint(err error) string {
	var immutable *submit.ImmutableError
	if errors.As(err, &immutable) && immutable.Replaceable {
		return "\nThe change is shown above. --replace makes the job anew with it; it then starts over"
	}
	return "\nThe change is shown above. Delete the job, and create it anew"
}

func serverOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return address
	}
	return parsed.Scheme + "://" + parsed.Host
}
