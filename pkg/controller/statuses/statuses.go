// Package statuses writes the statuses of our kinds. It uses server-side apply: each controller owns the fields that it writes, so that two
// controllers can share one status.
package statuses

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Object identifies the cluster-scoped object whose status is written, and the owner of the written fields.
type Object struct{ Kind, Name, Owner string }

// Apply writes fields of a status from a pointer to a struct. Fields that the owner wrote before and omits now are removed. A missing object is no
// error.
func Apply(ctx context.Context, c client.StatusClient, to Object, fields any) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fields)
	if err != nil {
		return fmt.Errorf("writing the status of %s %s: %w", to.Kind, to.Name, err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	object.SetGroupVersionKind(g8s.SchemeGroupVersion.WithKind(to.Kind))
	object.SetName(to.Name)
	err = c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(to.Owner), client.ForceOwnership)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of %s %s: %w", to.Kind, to.Name, err)
	}
	return nil
}
