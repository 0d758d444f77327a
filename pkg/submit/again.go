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

// replacementPrefix is the name prefix of Leases that hold the replacement of a Job.
const replacementPrefix = "gpuctl-again-"

// maxReplacementSize is the maximum size of the replacement in such a Lease: all annotations of an object together may have 256 KiB.
const maxReplacementSize = 200 << 10

// replacement is a Job that replaces another one, which is deleted for it. A Lease holds it from before the deletion until the creation, so that an
// interruption between the two does not lose a job that no file has.
type replacement struct {
	Job *batchv1.Job `json:"job"`
	// Old is the UID of the replaced Job: its pods are waited for.
	Old types.UID `json:"old"`
	// Suspend and Held are the parameters of [Client.endSuspension].
	Suspend bool `json:"suspend,omitempty"`
	Held    bool `json:"held,omitempty"`
}

// saveReplacement writes such a Lease. It returns nil if the user may not, or if the Job is too large: then only the job's file still has it.
func (c *Client) saveReplacement(ctx context.Context, top client.Object, r replacement) (client.Object, error) {
	text, err := r.encodeText()
	if err != nil || len(text) > maxReplacementSize {
		return nil, err
	}
	lease := newNameReservation(top)
	lease.Name, lease.Annotations = replacementPrefix+jobNameOf(top), map[string]string{names.AnnotationReplacement: text}
	err = c.createOne(ctx, lease)
	if errors.As(err, new(*ExistsError)) { // left by an interrupted replacement whose Job exists after all
		if err = c.deleteStaleReplacement(ctx, lease); err == nil {
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

// deleteStaleReplacement deletes the Lease of a name, if gpuctl created it.
func (c *Client) deleteStaleReplacement(ctx context.Context, like client.Object) error {
	found, err := c.readObject(ctx, like)
	if err != nil || found == nil {
		return err
	}
	if !isOurs(found) {
		return &ExistsError{Namespace: found.GetNamespace(), Object: describeObject(found)}
	}
	return c.removeObject(ctx, found)
}

// deleteReplacement deletes the Lease that saveReplacement wrote. A Lease that stays does no harm: the next replacement of the job overwrites it.
func (c *Client) deleteReplacement(ctx context.Context, lease client.Object) {
	if lease != nil {
		_ = c.removeObject(ctx, lease)
	}
}

func (r replacement) encodeText() (string, error) {
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
