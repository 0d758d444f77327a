package submit

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// DeletedQuota is a deleted quota.
type DeletedQuota struct {
	Name string
	// Namespaces are the namespaces that it bounded.
	Namespaces []string
	// DeletedNamespaces are the namespaces that were deleted with it.
	DeletedNamespaces []string
}

// QuotaNotFoundError says that a quota does not exist.
type QuotaNotFoundError struct{ Name string }

func (e *QuotaNotFoundError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *QuotaNotFoundError) Message() phrase.Text {
	return phrase.Textf("quota %q not found", e.Name)
}

// DeleteQuota deletes a quota from all its namespaces. The namespaces and their content stay, unless the options say otherwise; even then, namespaces
// that gpuctl did not create stay.
func (c *Client) DeleteQuota(ctx context.Context, name string, opts QuotaOptions) (DeletedQuota, error) {
	out := DeletedQuota{Name: name}
	quotas, err := c.Quotas(ctx, name)
	if err != nil {
		return out, err
	}
	if len(quotas) == 0 {
		return out, &QuotaNotFoundError{Name: name}
	}
	for i := range quotas {
		if err := c.removeObject(ctx, &quotas[i]); err != nil {
			return out, err
		}
		out.Namespaces = append(out.Namespaces, quotas[i].Namespace)
	}
	if !opts.DeleteNamespaces {
		return out, nil
	}
	for _, name := range out.Namespaces {
		deleted, err := c.DeleteNamespace(ctx, name)
		if err != nil && !errors.As(err, new(*ForeignNamespaceError)) {
			return out, err
		}
		if deleted {
			out.DeletedNamespaces = append(out.DeletedNamespaces, name)
		}
	}
	return out, nil
}

// ForeignNamespaceError says that gpuctl did not create a namespace.
type ForeignNamespaceError struct{ Name string }

func (e *ForeignNamespaceError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *ForeignNamespaceError) Message() phrase.Text {
	return phrase.Textf("namespace %q was not made by gpuctl. Delete it with kubectl if you mean it", e.Name)
}

// DeleteNamespace deletes a namespace that gpuctl created, with its content. Its errors are those of OwnNamespace.
func (c *Client) DeleteNamespace(ctx context.Context, name string) (deleted bool, err error) {
	found, err := c.OwnNamespace(ctx, name)
	if err != nil {
		return false, err
	}
	if err := c.checkPrecondition(found); err != nil {
		return false, err
	}
	return true, c.removeWithPreconditions(ctx, found, c.deletePreconditions(found))
}

// WaitForNamespaceDeletion waits until a deleted namespace and its content are gone. It does not wait if the user may not read it.
func (c *Client) WaitForNamespaceDeletion(ctx context.Context, name string) error {
	like := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	withKind(like, corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := wait.PollUntilContextCancel(ctx, deletionPollInterval, true, func(ctx context.Context) (bool, error) {
		found, err := c.readObject(ctx, like)
		if apierrors.IsForbidden(err) {
			return true, nil
		}
		return err == nil && (found == nil || found.GetDeletionTimestamp() == nil), err
	})
	if err != nil {
		return phrase.Errorf("waiting for namespace %s to go: %w", name, err)
	}
	return nil
}

// OwnNamespace reads a namespace that gpuctl created. It returns a [NamespaceNotFoundError] if there is no such namespace, and a
// [ForeignNamespaceError] if gpuctl did not create it.
func (c *Client) OwnNamespace(ctx context.Context, name string) (client.Object, error) {
	like := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	withKind(like, corev1.SchemeGroupVersion.WithKind("Namespace"))
	found, err := c.readObject(ctx, like)
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, &NamespaceNotFoundError{Name: name}
	case !isOurs(found) || found.GetLabels()[names.LabelNamespace] != names.True:
		return nil, &ForeignNamespaceError{Name: name}
	}
	return found, nil
}

// NamespaceNotFoundError says that a namespace does not exist.
type NamespaceNotFoundError struct{ Name string }

func (e *NamespaceNotFoundError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *NamespaceNotFoundError) Message() phrase.Text {
	return phrase.Textf("namespace %q not found", e.Name)
}
