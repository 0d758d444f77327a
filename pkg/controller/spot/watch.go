package spot

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// secretWatch watches the namespace of the Secrets that SpotPools name. It does not use the manager's cache: it starts with the first SpotPool that
// names a Secret, and the controller also works in a cluster that forbids watching Secrets.
type secretWatch struct {
	secrets cache.SharedIndexInformer
	changes chan event.GenericEvent
	wanted  chan struct{}
	once    sync.Once
}

func newSecretWatch(manager ctrl.Manager, namespace string) (*secretWatch, error) {
	metadataClient, err := metadata.NewForConfigAndClient(manager.GetConfig(), manager.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("preparing to watch Secrets: %w", err)
	}
	out := &secretWatch{changes: make(chan event.GenericEvent), wanted: make(chan struct{})}
	out.secrets = metadatainformer.NewFilteredMetadataInformer(metadataClient, corev1.SchemeGroupVersion.WithResource("secrets"), namespace, 0, nil, nil).Informer()
	if err := manager.Add(out); err != nil {
		return nil, fmt.Errorf("preparing to watch Secrets: %w", err)
	}
	return out, nil
}

// requestStart begins the watch.
func (w *secretWatch) requestStart() {
	if w != nil {
		w.once.Do(func() { close(w.wanted) })
	}
}

// Start implements manager.Runnable, for the leader.
func (w *secretWatch) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-w.wanted:
	}
	tell := func(object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		secret, ok := object.(*metav1.PartialObjectMetadata)
		if !ok {
			return
		}
		select {
		case w.changes <- event.GenericEvent{Object: secret}:
		case <-ctx.Done():
		}
	}
	if _, err := w.secrets.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: tell, UpdateFunc: func(_, object any) { tell(object) },
	}); err != nil {
		return fmt.Errorf("watching Secrets: %w", err)
	}
	var forbidden sync.Once
	if err := w.secrets.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !apierrors.IsForbidden(err) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		forbidden.Do(func() {
			ctrl.LoggerFrom(ctx).Error(err, "Secrets that change are seen late, as they may not be watched: apply manifests/spot")
		})
	}); err != nil {
		return fmt.Errorf("watching Secrets: %w", err)
	}
	w.secrets.RunWithContext(ctx)
	return nil
}

// poolsNaming returns the SpotPools that name a Secret.
func (r *Reconciler) poolsNaming(ctx context.Context, secret client.Object) []reconcile.Request {
	var list g8s.SpotPoolList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil // they are reconciled again anyway
	}
	var out []reconcile.Request
	for i := range list.Items {
		if credentials, userData := secretNames(&list.Items[i]); secret.GetName() == credentials || secret.GetName() == userData {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}
