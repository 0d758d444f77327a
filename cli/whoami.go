package cli

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// whoAmI asks the API server as whom it knows the user.
func (f *Factory) whoAmI(ctx context.Context) (string, error) {
	clientset, err := f.kubernetes()
	if err != nil {
		return "", err
	}
	review, err := clientset.AuthenticationV1().SelfSubjectReviews().Create(
		ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking the cluster who you are: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}
