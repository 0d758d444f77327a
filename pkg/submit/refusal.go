package submit

import (
	"errors"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refusedByPolicy is how the API server words the refusal of a ValidatingAdmissionPolicy. It has no field for either part.
var refusedByPolicy = regexp.MustCompile(`(?s)^ValidatingAdmissionPolicy '([^']+)' (?:with binding '[^']+' )?denied request: (.*)$`)

// PolicyRefusal tells whether an error is the refusal of a policy of the cluster, and if so, which one it was, and the
// error in the policy's own words, which say what to do, without those of the API server around them.
func PolicyRefusal(err error) (policy, text string, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return "", "", false
	}
	for _, cause := range status.Status().Details.Causes {
		if parts := refusedByPolicy.FindStringSubmatch(cause.Message); parts != nil {
			return parts[1], strings.Replace(err.Error(), status.Status().Message, parts[2], 1), true
		}
	}
	return "", "", false
}
