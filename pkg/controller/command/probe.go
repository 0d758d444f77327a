package command

import (
	"context"
	"errors"
	"net/http"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// syncPatience bounds how long a probe waits for the caches.
const syncPatience = time.Second

// synced fails until the caches have synced. This includes standby replicas.
func synced(manager ctrl.Manager) healthz.Checker {
	return func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), syncPatience)
		defer cancel()
		if !manager.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the cluster has not been read yet")
		}
		return nil
	}
}
