"""Makes the sample documents. All companies, people and figures in them are invented."""
