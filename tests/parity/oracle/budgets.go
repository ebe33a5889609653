package main

import (
	"cmp"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	policylisters "k8s.io/client-go/listers/policy/v1"
)

// budgetsByName lists budgets by name. kube-scheduler takes them in an order of chance, which from
// 1.37 on decides which of them a pod uses.
type budgetsByName struct {
	policylisters.PodDisruptionBudgetLister
}

func (b budgetsByName) List(of labels.Selector) ([]*policyv1.PodDisruptionBudget, error) {
	found, err := b.PodDisruptionBudgetLister.List(of)
	slices.SortFunc(found, func(one, other *policyv1.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(one.Name, other.Name), cmp.Compare(one.Namespace, other.Namespace))
	})
	return found, err
}
