"""DAGs of your own that use the operators: copy them into your DAG folder and change them."""
