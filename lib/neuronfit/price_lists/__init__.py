"""Prices from elsewhere: asked from AWS with the user's credentials, or read from a file somebody has.

``aws``      one look-up each: list prices, Savings Plans, spot, capacity blocks, SageMaker hosting
``refresh``  many look-ups into one dated file of the user, and what changed
``foreign``  a price file: what it is, on which basis, what is wrong with it
``lists``, ``market``, ``bills``  the readers behind ``foreign``

Nothing here edits the shipped snapshot, and nothing read from a file is adopted: the team's own rates
go into ``pricing.overrides`` of a params file, with their date.
"""
