package submit

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// againPrefix begins the names of the Leases that know a Job which is made again.
const againPrefix = "gpuctl-again-"

// mostNoted is how large what such a Lease knows may be, as all annotations of an object may have 256 KiB.
const mostNoted = 200 << 10

// replacement is a Job that comes in the place of one that is deleted for it. A Lease knows it from before the deletion until the
// creation, so that whoever is stopped between the two has not lost a job that no file has.
type replacement struct {
	Job *batchv1.Job `json:"job"`
	// Old is the Job in whose place it comes: its pods are waited for.
	Old types.UID `json:"old"`
	// Suspend and Held are those of [Client.letGo].
	Suspend bool `json:"suspend,omitempty"`
	Held    bool `json:"held,omitempty"`
}

// remember writes such a Lease, nil if the user may not, or the Job is too large for it: then only its file has it meanwhile.
func (c *Client) remember(ctx context.Context, top client.Object, r replacement) (client.Object, error) {
	text, err := r.encode()
	if err != nil || len(text) > mostNoted {
		return nil, err
	}
	lease := reservation(top)
	lease.Name, lease.Annotations = againPrefix+jobOf(top), map[string]string{names.AnnotationReplacement: text}
	err = c.createOne(ctx, lease)
	if errors.As(err, new(*ExistsError)) { // of somebody who was stopped, and whose Job is there all the same
		if err = c.forgetOther(ctx, lease); err == nil {
			err = c.createOne(ctx, lease)
		}
	}
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return lease, nil
}

// forgetOther removes the Lease of a name, if it is ours.
func (c *Client) forgetOther(ctx context.Context, like client.Object) error {
	found, err := c.read(ctx, like)
	if err != nil || found == nil {
		return err
	}
	if !isOurs(found) {
		return &ExistsError{Namespace: found.GetNamespace(), Object: describe(found)}
	}
	return c.remove(ctx, found)
}

// forget removes what remember wrote. One that stays is in nobody's way: the next who makes the job again replaces it.
func (c *Client) forget(ctx context.Context, lease client.Object) {
	if lease != nil {
		_ = c.remove(ctx, lease)
	}
}

func (r replacement) encode() (string, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(data); err != nil {
		return "", err
	}
	if err := writer.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}
