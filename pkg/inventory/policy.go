package inventory

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

const (
	// DefaultWorkdirLimit is the maximum compressed size of a folder that is sent with a job. All of them are in etcd, and in the memory of every
	// client that watches ConfigMaps: see docs/operations.md.
	DefaultWorkdirLimit = 2 << 20
	// MaxWorkdirLimit is the most that administrators can allow.
	MaxWorkdirLimit = 50 << 20
)

// readPolicyConfigMap reads the administrators' settings with one request. It is nil if there are none, or none that this user may read. Then only the admission
// policies in the cluster, if any, decide.
func (r *Reader) readPolicyConfigMap(ctx context.Context) (*corev1.ConfigMap, error) {
	policy, err := r.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, names.PolicyConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, phrase.Errorf("reading ConfigMap %s: %w", names.PolicyConfigMap, err)
	}
	return policy, nil
}

// HostPaths reads which paths of nodes the administrator lets jobs mount, with one request. It is nil if unknown.
func (r *Reader) HostPaths(ctx context.Context) ([]string, error) {
	policy, err := r.readPolicyConfigMap(ctx)
	if policy == nil || err != nil {
		return nil, err
	}
	allowed := []string{}
	for line := range strings.Lines(policy.Data[names.PolicyHostPaths]) {
		if line = strings.TrimSpace(line); line != "" {
			allowed = append(allowed, line)
		}
	}
	return allowed, nil
}

// Policy reads the administrators' settings as they are written, with one request. It is nil if unknown.
func (r *Reader) Policy(ctx context.Context) (map[string]string, error) {
	policy, err := r.readPolicyConfigMap(ctx)
	if policy == nil || err != nil {
		return nil, err
	}
	return policy.Data, nil
}

// WorkdirLimit reads how much a folder may have, compressed, which is sent with a job: one request. 0 allows none.
func (r *Reader) WorkdirLimit(ctx context.Context) (int64, error) {
	policy, err := r.readPolicyConfigMap(ctx)
	if policy == nil || err != nil {
		return DefaultWorkdirLimit, err
	}
	return workdirLimit(policy.Data[names.PolicyWorkdirLimit])
}

// workdirLimit reads a limit as administrators write it; empty is the default.
func workdirLimit(text string) (int64, error) {
	if text = strings.TrimSpace(text); text == "" {
		return DefaultWorkdirLimit, nil
	}
	limit, err := resource.ParseQuantity(text)
	if err != nil || limit.Sign() < 0 || limit.CmpInt64(MaxWorkdirLimit) > 0 {
		return 0, phrase.Errorf("%s of ConfigMap %s is %q, want an amount from 0 to 50Mi: have the administrators correct it",
			names.PolicyWorkdirLimit, names.PolicyConfigMap, text)
	}
	return limit.Value(), nil
}
