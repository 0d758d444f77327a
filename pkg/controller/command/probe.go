package command

import (
	"context"
	"errors"
	"net/http"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// syncPatience is how long a probe waits for the caches.
const syncPatience = time.Second

// synced says no until all that the controllers look at has been read once. A replica that stands by has read it, too.
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
