package spot

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// maxUserData is the limit of clouds in bytes.
const maxUserData = 16 << 10

// secrets are the Secrets that a SpotPool names, as read.
type secrets struct {
	credentials, userData readSecret
	versions              []g8s.ObservedSecret
}

// readSecret is one Secret, or why it cannot be used. It is empty if none is named.
type readSecret struct {
	data map[string][]byte
	err  error
}

// secretNames are the names of the Secrets of a SpotPool.
func secretNames(pool *g8s.SpotPool) (credentials, userData string) {
	if ref := pool.Spec.Provider.CredentialsSecret; ref != nil {
		credentials = ref.Name
	}
	if ref := pool.Spec.Template.UserData; ref != nil {
		userData = ref.Name
	}
	return credentials, userData
}

// readSecrets reads the Secrets of a SpotPool. An error describes what is wrong with them, never their content.
func (r *Reconciler) readSecrets(ctx context.Context, pool *g8s.SpotPool) *secrets {
	out := &secrets{}
	credentials, userData := secretNames(pool)
	if credentials != "" || userData != "" {
		r.secrets.requestStart()
	}
	out.credentials = r.readSecret(ctx, pool, credentials, out)
	out.userData = r.readSecret(ctx, pool, userData, out)
	if ref := pool.Spec.Template.UserData; ref != nil && out.userData.err == nil {
		if value := out.userData.data[ref.Key]; len(value) == 0 || len(value) > maxUserData {
			out.userData.err = &Error{Kind: Denied, Text: fmt.Sprintf(
				"Secret %s/%s must have key %s, of 1 byte to 16 KiB", r.SecretsNamespace, ref.Name, ref.Key)}
		}
	}
	slices.SortFunc(out.versions, func(a, b g8s.ObservedSecret) int { return cmp.Compare(a.Name, b.Name) })
	out.versions = slices.Compact(out.versions)
	return out
}

// readSecret reads one Secret and records its version. For an unreadable one it keeps the version that was read last.
func (r *Reconciler) readSecret(ctx context.Context, pool *g8s.SpotPool, name string, out *secrets) readSecret {
	if name == "" {
		return readSecret{}
	}
	var secret corev1.Secret
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.SecretsNamespace, Name: name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return readSecret{err: &Error{Kind: Denied, Text: fmt.Sprintf("there is no Secret %s/%s", r.SecretsNamespace, name)}}
	case err == nil:
		out.versions = append(out.versions, g8s.ObservedSecret{Name: name, ResourceVersion: secret.ResourceVersion})
		return readSecret{data: secret.Data}
	}
	for _, observed := range pool.Status.ObservedSecrets {
		if observed.Name == name {
			out.versions = append(out.versions, observed)
		}
	}
	if apierrors.IsForbidden(err) {
		return readSecret{err: &Error{Kind: Denied, Text: fmt.Sprintf("gpu-controller may not read Secret %s/%s", r.SecretsNamespace, name)}}
	}
	return readSecret{err: &Error{Kind: Lost, Text: fmt.Sprintf("Secret %s/%s cannot be read now", r.SecretsNamespace, name)}}
}

// isChanged reports whether the spec or the Secrets of a SpotPool changed since its status was computed.
func isChanged(pool *g8s.SpotPool, versions []g8s.ObservedSecret) bool {
	return pool.Status.ObservedGeneration != pool.Generation || !slices.Equal(pool.Status.ObservedSecrets, versions)
}
