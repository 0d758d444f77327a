// Package evictions sends evictions for package eviction with a controller-runtime client.
package evictions

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client implements eviction.API.
type Client struct{ client.Client }

// SendEviction sends an eviction.
func (c Client) SendEviction(ctx context.Context, eviction *policyv1.Eviction) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: eviction.Namespace, Name: eviction.Name}}
	return c.SubResource("eviction").Create(ctx, pod, eviction)
}
