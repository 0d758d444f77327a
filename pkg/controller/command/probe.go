package command

import (
	"context"
	"errors"
	"net/http"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// syncTimeout bounds how long a probe waits for the caches.
const syncTimeout = time.Second

// cachesSynced fails until the caches have synced. This includes standby replicas.
func cachesSynced(manager ctrl.Manager) healthz.Checker {
	return func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), syncTimeout)
		defer cancel()
		if !manager.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the cluster has not been read yet")
		}
		return nil
	}
}
