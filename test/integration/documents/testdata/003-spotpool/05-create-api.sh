kubebuilder create api --group devops.jokerbai.com --version v1 --kind Spotpool
