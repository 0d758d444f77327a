package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// SharedPools reads the pools that have nodes which share their GPUs by memory: one request.
func (r *Reader) SharedPools(ctx context.Context) (map[string]bool, error) {
	selector := names.LabelSharing + "=" + names.SharingMemory
	list, err := r.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing the nodes that share GPUs: %w", err)
	}
	pools := map[string]bool{}
	for i := range list.Items {
		pools[gpu.PoolOf(&list.Items[i])] = true
	}
	return pools, nil
}

// AliasedTypes reads which of types are those of nodes without [names.LabelGPUType], which only an alias of it tells:
// one request for each alias.
func (r *Reader) AliasedTypes(ctx context.Context, types []string) (map[string]bool, error) {
	var mu sync.Mutex
	found := map[string]bool{}
	group, ctx := errgroup.WithContext(ctx)
	for _, alias := range names.GPUTypeLabels[1:] {
		group.Go(func() error {
			options := metav1.ListOptions{ResourceVersion: fromCache, LabelSelector: selector(alias, types)}
			list, err := r.client.CoreV1().Nodes().List(ctx, options)
			if err != nil {
				return fmt.Errorf("listing the nodes with label %s: %w", alias, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for i := range list.Items {
				node := &list.Items[i]
				if gpuType := gpu.TypeOf(node); node.Labels[names.LabelGPUType] == "" && slices.Contains(types, gpuType) {
					found[gpuType] = true
				}
			}
			return nil
		})
	}
	return found, group.Wait()
}

// selector matches nodes that carry one of types in an alias, and not in our label.
func selector(alias string, types []string) string {
	return alias + " in (" + strings.Join(types, ",") + "),!" + names.LabelGPUType
}

// HostPaths reads which paths of nodes the administrator lets jobs mount: one request. It is nil where no list is
// kept, or none for this user to read; the policy in the cluster, if there is one, then decides alone.
func (r *Reader) HostPaths(ctx context.Context) ([]string, error) {
	list, err := r.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, names.PolicyConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading ConfigMap %s: %w", names.PolicyConfigMap, err)
	}
	allowed := []string{}
	for line := range strings.Lines(list.Data[names.PolicyHostPaths]) {
		if line = strings.TrimSpace(line); line != "" {
			allowed = append(allowed, line)
		}
	}
	return allowed, nil
}
