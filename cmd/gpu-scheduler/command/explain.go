package command

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/explain"
	explainserver "g8s.host/gpu-scheduler/pkg/explain/server"
)

// explanations are the records of why pods are where they are, and their server. kube-scheduler does not allow additions to its own endpoints,
// so they have a port of their own, with the same address, certificate, authentication and authorization.
type explanations struct {
	recorder *explain.Recorder
	port     int
}

// shutdownTimeout is how long requests in flight have when the scheduler ends.
const shutdownTimeout = 5 * time.Second

func newExplanations() *explanations {
	return &explanations{recorder: explain.NewRecorder(explain.DefaultLimits)}
}

func (e *explanations) addFlags(flags *pflag.FlagSet) {
	flags.IntVar(&e.port, "explain-secure-port", 0,
		"Port on which to serve, with HTTPS, authentication and authorization, why pods are where they are. "+
			"Address and certificate are those of --secure-port. 0 serves nothing")
}

// serveRecords serves requests until ctx ends. It returns once the port is open.
func (e *explanations) serveRecords(ctx context.Context, cc *config.CompletedConfig) error {
	if e.port == 0 || cc.SecureServing == nil {
		return nil
	}
	host, _, err := net.SplitHostPort(cc.SecureServing.Listener.Addr().String())
	if err != nil {
		return fmt.Errorf("reading the address of --secure-port: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(e.port)))
	if err != nil {
		return fmt.Errorf("opening --explain-secure-port: %w", err)
	}
	serving := *cc.SecureServing
	serving.DisableHTTP2 = true // each HTTP/2 connection may buffer 25 MB before it is authenticated
	var handler http.Handler
	serving.Listener, handler = explainserver.BoundListener(listener, withAuth(explainserver.NewHandler(e.recorder, newLeaderQuery(cc)), cc))
	if _, _, err := serving.Serve(handler, shutdownTimeout, ctx.Done()); err != nil {
		return fmt.Errorf("serving explanations: %w", err)
	}
	return nil
}

// withAuth admits requests that the cluster authenticates and authorizes for the path, as kube-scheduler does for its metrics.
func withAuth(handler http.Handler, cc *config.CompletedConfig) http.Handler {
	resolver := &request.RequestInfoFactory{}
	handler = filters.WithAuthorization(handler, cc.Authorization.Authorizer, scheme.Codecs)
	handler = filters.WithAuthentication(handler, cc.Authentication.Authenticator, filters.Unauthorized(scheme.Codecs), nil, nil)
	handler = filters.WithRequestInfo(handler, resolver)
	handler = filters.WithCacheControl(handler)
	return genericfilters.WithPanicRecovery(handler, resolver)
}

// newLeaderQuery reads the current leader from the lease. It is only read if there is no record to return. The lock of the election would remember
// what it reads, and is reserved for the election.
func newLeaderQuery(cc *config.CompletedConfig) explainserver.Leader {
	if cc.LeaderElection == nil {
		return nil
	}
	self, lease := cc.LeaderElection.Lock.Identity(), cc.ComponentConfig.LeaderElection
	return func(ctx context.Context) (string, bool, error) {
		got, err := cc.Client.CoordinationV1().Leases(lease.ResourceNamespace).Get(ctx, lease.ResourceName, metav1.GetOptions{})
		if err != nil {
			return "", false, fmt.Errorf("reading the scheduler's lease: %w", err)
		}
		holder := ptr.Deref(got.Spec.HolderIdentity, "")
		return holder, holder == self, nil
	}
}
