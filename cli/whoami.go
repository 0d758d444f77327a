package cli

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// whoAmI asks the API server for the user's name.
func (f *Factory) whoAmI(ctx context.Context) (string, error) {
	clientset, err := f.newKubernetesClient()
	if err != nil {
		return "", err
	}
	review, err := clientset.AuthenticationV1().SelfSubjectReviews().Create(
		ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", phrase.Errorf("asking the cluster who you are: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}
